/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the child that reads a binary, and takes its records. A child that fails is started once more without DWARF,
 * since damaged DWARF does most harm. A file that cannot be read for minutes is given up. All records are checked: the file
 * that the child reads may have corrupted its memory. */
#include "symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols_parts.h"

#define MAX_MEMORY_BYTES ((rlim_t)16 << 30) /* of addresses: libdw maps files whole */
#define MAX_CPU_S 120
#define MAX_S 600            /* a file system may not answer */
#define MAX_DOWNLOAD_S 3600  /* with servers of debug information */

static void set_limit(int which, rlim_t value)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)which, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < value ? limit.rlim_max : value;
    setrlimit((__rlimit_resource_t)which, &limit);
}

bool symbols_has_servers(void)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    return servers && servers[0] != '\0';
}

/* Ends this child later, whatever signals the caller has blocked or ignores. */
static void set_alarm(void)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(symbols_has_servers() ? MAX_DOWNLOAD_S : MAX_S);
}

/* Only this child writes to the pipe, so the pipe ends when the child ends. */
static void run_child(const struct symbols_wanted *wanted, bool with_dwarf, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_limit(RLIMIT_AS, MAX_MEMORY_BYTES);
    set_limit(RLIMIT_CPU, MAX_CPU_S);
    set_limit(RLIMIT_CORE, 0);
    set_alarm();
    signal(SIGPIPE, SIG_DFL);
    symbols_child_run(wanted, with_dwarf, fd);
    _exit(1);
}

/* --- Taking what it sends ------------------------------------------------------------------------------------------- */

struct texts {
    char bytes[SYMBOLS_MAX_INLINED][3][SYMBOLS_MAX_TEXT + 1];
    struct symbols_frame frames[SYMBOLS_MAX_INLINED];
};

/* Bytes that are not UTF-8 become '?': profiles hold UTF-8. A character that was cut at the end does too. */
static void clean(char *text)
{
    unsigned char *at = (unsigned char *)text;
    while (*at != '\0') {
        size_t n = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;
        size_t good = n > 0 ? 1 : 0;
        while (good > 0 && good < n && (at[good] & 0xc0) == 0x80)
            good++;
        bool is_bad = n == 0 || good < n || (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0)
            || (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] >= 0x90);
        if (is_bad)
            *at = '?';
        at += is_bad ? 1 : n;
    }
}

static bool read_text(FILE *from, char to[SYMBOLS_MAX_TEXT + 1], uint32_t bytes)
{
    if (bytes > SYMBOLS_MAX_TEXT || fread(to, 1, bytes, from) != bytes)
        return false;
    to[bytes] = '\0';
    clean(to);
    return true;
}

static bool read_frame(FILE *from, struct texts *texts, size_t i)
{
    struct symbols_record_frame frame;
    if (fread(&frame, sizeof frame, 1, from) != 1 || !read_text(from, texts->bytes[i][0], frame.name_bytes)
        || !read_text(from, texts->bytes[i][1], frame.system_bytes) || !read_text(from, texts->bytes[i][2], frame.file_bytes))
        return false;
    texts->frames[i] = (struct symbols_frame){texts->bytes[i][0], texts->bytes[i][1], texts->bytes[i][2], frame.line, frame.start_line};
    return true;
}

static bool read_frames(FILE *from, struct texts *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!read_frame(from, texts, i))
            return false;
    return true;
}

/* Returns 0 at the end, -EBADMSG if the records are damaged, or what take() returned. */
static int read_records(FILE *from, size_t n_wanted, struct texts *texts, int (*take)(void *, const struct symbols_found *), void *data,
                        char reason[SYMBOLS_REASON_BYTES])
{
    struct symbols_record record;
    while (fread(&record, sizeof record, 1, from) == 1) {
        if (record.n_frames == SYMBOLS_REASON) {
            if (record.address >= SYMBOLS_REASON_BYTES || fread(reason, 1, record.address, from) != record.address)
                return -EBADMSG;
            reason[record.address] = '\0';
            clean(reason);
            continue;
        }
        if (record.n_frames > SYMBOLS_MAX_INLINED || record.i >= n_wanted || !read_frames(from, texts, record.n_frames))
            return -EBADMSG;
        int error = take(data, &(struct symbols_found){record.i, record.address, record.n_frames, texts->frames});
        if (error != 0)
            return error;
    }
    return 0;
}

/* --- Both ----------------------------------------------------------------------------------------------------------- */

static const char took_too_long[] = "takes too long to read";

/* Returns NULL, or the reason why the child failed. */
static const char *describe_end(pid_t child, int error)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (error == -ENOMEM)
        return "out of memory";
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGALRM   ? took_too_long
               : WTERMSIG(status) == SIGXCPU ? "takes more than two minutes"
                                             : "is damaged: the libraries that read it crash on it";
    return error != 0 || WEXITSTATUS(status) != 0 ? "cannot be read within the bounds on memory" : NULL;
}

static const char *run(const struct symbols_wanted *wanted, bool with_dwarf, int (*take)(void *, const struct symbols_found *), void *data,
                       char reason[SYMBOLS_REASON_BYTES])
{
    int fds[2];
    struct texts *texts = malloc(sizeof *texts);
    if (!texts || pipe2(fds, O_CLOEXEC) != 0) {
        free(texts);
        return "there are no resources for another process";
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        run_child(wanted, with_dwarf, fds[1]);
    }
    close(fds[1]);
    FILE *from = child > 0 ? fdopen(fds[0], "r") : NULL;
    int error = from ? read_records(from, wanted->n, texts, take, data, reason) : -EBADMSG;
    if (from)
        fclose(from);
    else
        close(fds[0]);
    free(texts);
    return child > 0 ? describe_end(child, error) : "there are no resources for another process";
}

const char *symbols_find(const struct symbols_wanted *wanted, int (*take)(void *data, const struct symbols_found *found), void *data,
                         char reason[SYMBOLS_REASON_BYTES])
{
    reason[0] = '\0';
    const char *first = run(wanted, true, take, data, reason);
    const char *second = first && first != took_too_long ? run(wanted, false, take, data, reason) : first;
    if (first)
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.300s %s%s", wanted->path, first, second ? "" : "; only its symbol table was read");
    return reason[0] == '\0' ? NULL : reason;
}
