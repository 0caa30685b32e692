/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan symbolize --calls`, not for users: answers the sidecar's questions for the functions of calls (src/sidecar/call_names.h).
 *
 * This process may need much memory and time. So it gives way to all others, and ends with the sidecar. */
#include "symbolize_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"
#include "console/command.h"
#include "console/text.h"
#include "profile/roles.h"
#include "profile/symbolize.h"
#include "sidecar/call_names.h"
#include "symbols/symbols.h"

#define NICE 10
#define WANTED_NAME_BYTES 70 /* as in other lists of calls */

struct questions {
    const char *path; /* of the present binary */
    char build_id[CALL_NAMES_BUILD_ID_BYTES];
    uint64_t *offsets;
    size_t n, room;
    uint32_t first;   /* the first one of the present binary */
};

static void give_way(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, NICE);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1000", 4) < 0)
        errno = 0; /* it has no less than the sidecar then */
    if (fd >= 0)
        close(fd);
}

static ProtobufCBinaryData text_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static enum service_role role_in(const struct symbols_frame *frame, const char *path)
{
    const struct role_names names = {text_of(frame->name), text_of(frame->system), text_of(path)};
    return role_of(&names);
}

static void send_function(const struct symbols_frame *frame, const char *path)
{
    char name[SYMBOLS_MAX_TEXT + 1], file[SYMBOLS_MAX_TEXT + 1];
    snprintf(name, sizeof name, "%s", frame->name);
    snprintf(file, sizeof file, "%s", frame->file);
    short_name(name, WANTED_NAME_BYTES);
    symbolize_clean(name);
    symbolize_clean(file);
    struct call_names_function head = {frame->line, role_in(frame, path), (uint32_t)strnlen(name, CALL_NAMES_TEXT_BYTES - 1),
                                       (uint32_t)strnlen(file, CALL_NAMES_TEXT_BYTES - 1)};
    fwrite(&head, sizeof head, 1, stdout);
    fwrite(name, 1, head.name_bytes, stdout);
    fwrite(file, 1, head.file_bytes, stdout);
}

/* The outermost function first. */
static int take(void *data, const struct symbols_found *found)
{
    const struct questions *q = data;
    struct call_names_answer answer = {q->first + (uint32_t)found->i, (uint32_t)found->n_frames};
    fwrite(&answer, sizeof answer, 1, stdout);
    for (size_t i = found->n_frames; i > 0; i--)
        send_function(&found->frames[i - 1], q->path);
    return ferror(stdout) ? -EPIPE : 0;
}

/* All offsets that were read are in one binary. */
static void answer(struct questions *q, const char *path)
{
    char reason[SYMBOLS_REASON_BYTES];
    struct symbols_wanted wanted = {path, q->build_id, q->offsets, q->n};
    q->path = path;
    if (q->n > 0)
        symbols_find(&wanted, take, q, reason);
    fflush(stdout);
    q->first += (uint32_t)q->n;
    q->n = 0;
}

int symbolize_calls(void)
{
    struct call_names_question question;
    struct questions q = {0};
    char path[PATH_MAX] = "", *text = NULL;
    size_t bytes = 0, at = 0, room = 0;
    give_way();
    do { /* the sidecar reads no answer before it has sent all questions */
        if (array_reserve(&text, &room, bytes + 4096, 1))
            return STATUS_PREPARE;
        at = fread(text + bytes, 1, room - bytes, stdin);
        bytes += at;
    } while (at > 0);
    for (at = 0; bytes - at >= sizeof question; at += question.path_bytes + question.build_id_bytes) {
        memcpy(&question, text + at, sizeof question);
        at += sizeof question;
        if (question.path_bytes >= sizeof path || question.build_id_bytes >= sizeof q.build_id
            || question.path_bytes + question.build_id_bytes > bytes - at)
            return STATUS_USAGE;
        if (question.path_bytes > 0) {
            answer(&q, path);
            memcpy(path, text + at, question.path_bytes);
            path[question.path_bytes] = '\0';
            memcpy(q.build_id, text + at + question.path_bytes, question.build_id_bytes);
            q.build_id[question.build_id_bytes] = '\0';
        }
        if (array_reserve(&q.offsets, &q.room, q.n + 1, sizeof *q.offsets))
            return STATUS_PREPARE;
        q.offsets[q.n++] = question.offset;
    }
    answer(&q, path);
    return cmd_finish_output();
}
