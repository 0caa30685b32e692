/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl PID get`, `list` and `dump`: values are read from outside, and only if that is not possible the program is
 * asked. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console/command.h"
#include "console/text.h"
#include "ctl_target.h"
#include "snapshot/names_outside.h"
#include "snapshot/view.h"

/* ---- Values ---- */

void ctl_print_words(const char *words)
{
    for (; *words; words++)
        putchar(iscntrl((unsigned char)*words) ? '?' : *words);
}

static void print_value(const struct mailbox_answer *answer, bool json)
{
    switch (answer->kind) {
    case MAILBOX_BOOL:
        fputs(answer->value ? "true" : "false", stdout);
        break;
    case MAILBOX_SIGNED:
        printf("%" PRId64, (int64_t)answer->value);
        break;
    case MAILBOX_UNSIGNED:
        printf("%" PRIu64, answer->value);
        break;
    default:
        if (json)
            text_print_json(answer->words);
        else
            ctl_print_words(answer->words);
        break;
    }
}

/* Prints one value after the other. */
struct printing {
    bool json, with_names, any;
};

static void print_named(void *to, const char *name, const struct mailbox_answer *answer)
{
    struct printing *p = to;
    if (p->json) {
        fputs(p->any ? ",\n  " : "{\n  ", stdout);
        text_print_json(name);
        fputs(": ", stdout);
    } else if (p->with_names) {
        printf("%s: ", name);
    }
    print_value(answer, p->json);
    if (!p->json)
        putchar('\n');
    p->any = true;
}

static void end_printing(const struct printing *p)
{
    if (p->json)
        puts(p->any ? "\n}" : "{}");
}

/* ---- get ---- */

/* The first request of a command has the program bring jemalloc's statistics up to now. */
static int ask(struct ctl_target *t, const char *name, struct mailbox_answer *answer)
{
    struct mailbox_request request;
    int status = ctl_begin(&request, MAILBOX_GET, name);
    request.has_value = !t->has_asked;
    t->has_asked = true;
    return status ? status : ctl_ask(t, &request, answer);
}

static int get(struct ctl_target *t, const char *name, struct mailbox_answer *answer)
{
    char real[CTL_NAME_BYTES];
    int status = strchr(name, ':') ? ctl_name_by_path(t, name, real) : ctl_read(t);
    if (status)
        return status;
    name = strchr(name, ':') ? real : name;
    int error = names_outside_get(t->outside.view, t->outside.snapshot, name, answer);
    switch (error) {
    case 0:
        return 0;
    case -EOPNOTSUPP:
        return ask(t, name, answer);
    case -ENOENT:
    case -EAGAIN:
        cmd_error("%s: %s does not exist in it", t->word, name);
        return STATUS_REFUSED;
    default:
        cmd_error("%s: %s: %s", t->word, name, view_error_text(error));
        return STATUS_USAGE;
    }
}

int ctl_get(struct ctl_target *t, char **words, int n)
{
    struct printing printing = {.json = t->json, .with_names = n > 1};
    struct mailbox_answer answer;
    int status = 0;
    for (int i = 0; i < n && !status; i++) {
        status = get(t, words[i], &answer);
        if (!status)
            print_named(&printing, words[i], &answer);
    }
    end_printing(&printing);
    return status;
}

/* ---- list ---- */

int ctl_list(struct ctl_target *t, char **words, int n)
{
    struct printing printing = {.json = t->json, .with_names = true};
    int status = ctl_read(t);
    if (status)
        return status;
    int error = names_outside_list(t->outside.view, t->outside.snapshot, n ? words[0] : "*", print_named, &printing);
    end_printing(&printing);
    if (error) {
        cmd_error("%s: %s", t->word, view_error_text(error));
        return STATUS_USAGE;
    }
    if (printing.any || t->json)
        return 0;
    cmd_error("%s: '%s' fits no name that can be read from outside", t->word, n ? words[0] : "*");
    return STATUS_REFUSED;
}

/* ---- dump ---- */

int ctl_dump(struct ctl_target *t, char **words, int n)
{
    char name[64];
    int status = ctl_read(t);
    if (status)
        return status;
    snprintf(name, sizeof name, "heap.%d.pb.gz", (int)t->pid);
    const char *path = n ? words[0] : name;
    int error = strcmp(path, "-") ? outside_write_path(&t->outside, EXPORTER_HEAP, path)
                                  : outside_write(&t->outside, EXPORTER_HEAP, STDOUT_FILENO);
    if (error) {
        cmd_error("%s: %s", path, strerror(-error));
        return STATUS_WRITE;
    }
    if (!n)
        puts(name);
    return 0;
}
