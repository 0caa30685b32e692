/* SPDX-License-Identifier: BSD-2-Clause */
/* The line that the sidecar writes to stderr when the first process has ended. */
#include "sidecar/end_line.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "stacks/stacks.h"

#define LARGE_BYTES (UINT64_C(64) << 20)

static void say_holder(FILE *to, const char *when, const struct line_holder *h)
{
    char all[LINE_SIZE_BYTES], most[LINE_SIZE_BYTES];
    fprintf(to, "%s %s in use, most by %s (%s)", when, line_size(all, h->all_bytes), h->path, line_size(most, h->bytes));
}

/* Objects in use cannot be why the process was so large. It has mappings of its own, or keeps much that was freed. */
static void say_resident(FILE *to, const struct served *p)
{
    char most[LINE_SIZE_BYTES];
    if (p->most_resident_bytes > LARGE_BYTES && p->most_resident_bytes / 2 > p->peak.all_bytes)
        fprintf(to, "; its resident memory was up to %s: 'jespan rss PID' shows why while it runs",
                line_size(most, p->most_resident_bytes));
}

static void say_process(FILE *to, const char *name, pid_t pid)
{
    if (name[0])
        line_name(to, name);
    fprintf(to, name[0] ? " (process %d)" : "process %d", (int)pid);
}

/* A malloc of the program's own may be one that calls ours. */
static bool sees_nothing(const struct served_one *one)
{
    return one->pid && (one->peak.all_bytes == 0 || strcmp(one->peak.path, "(jespan)") == 0);
}

/* The first process may only have started the one that the user is interested in. */
static void say_others(FILE *to, const struct served *p)
{
    if (served_largest.pid && served_largest.pid != p->pid) {
        fputs("; ", to);
        say_process(to, served_largest.name, served_largest.pid);
        say_holder(to, " had most of all processes: at its peak", &served_largest.peak);
    }
    if (sees_nothing(&served_other_malloc)) {
        fputs("; ", to);
        if (served_other_malloc.pid == p->pid)
            fputs("it", to);
        else
            say_process(to, served_other_malloc.name, served_other_malloc.pid);
        fputs(" has another malloc, and jespan does not see what that allocates", to);
    }
}

/* Who takes stacks wants to see lines of code, which a report by context does not have. */
static const char *next_command(void)
{
    const char *names;
    return stacks_mode_of(conf.stacks, &names) == STACKS_OFF ? "report" : "leaks";
}

/* Bounds may have removed the older ones. */
static void say_dumps(FILE *to, const struct served_dumps *d)
{
    bool is_bounded = conf.dump_keep || conf.dump_dir_files || conf.dump_dir_bytes;
    fprintf(to, "; %llu dump%s", (unsigned long long)d->n, d->n == 1 ? "" : "s");
    if (d->processes > 1)
        fprintf(to, " of %llu processes", (unsigned long long)d->processes);
    fprintf(to, " %s ", d->n == 1 ? "is in" : is_bounded ? "were written, the newest are in" : "are in");
    line_path(to, conf.dump_dir);
    fprintf(to, "; next: jespan %s ", next_command());
    line_path(to, access(d->last, F_OK) == 0 ? d->last : conf.dump_dir); /* it may be one of those */
}

void end_line_say_unread(const struct served *p, const struct ending *e)
{
    char how[ENDING_TEXT_BYTES];
    const char *why = conf.only_programs[0] ? "; its program is left out (only_programs), or it ended before it could be read"
                                            : " before it could be read";
    dprintf(STDERR_FILENO, "jespan: process %d %s%s; it left no %s\n", (int)p->pid, ending_text(how, e), why,
            conf.dump_dir[0] ? "dump" : "figures");
}

/* One system call writes it, so that it is one line among the output of others. */
void end_line_say(const struct served *p, const struct ending *e)
{
    char *text = NULL, how[ENDING_TEXT_BYTES];
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return;
    fputs("jespan: ", to);
    say_process(to, p->name, p->pid);
    fprintf(to, " %s", ending_text(how, e));
    if (p->peak.all_bytes > 0) {
        say_holder(to, "; at its peak", &p->peak);
        say_holder(to, "; at last", &p->last);
    }
    say_resident(to, p);
    say_others(to, p);
    if (served_dumps.n > 0)
        say_dumps(to, &served_dumps);
    fputc('\n', to);
    if (fclose(to) == 0 && write(STDERR_FILENO, text, bytes) < 0)
        errno = 0; /* nobody reads it */
    free(text);
}
