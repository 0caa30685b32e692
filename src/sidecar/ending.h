/* SPDX-License-Identifier: BSD-2-Clause */
/* How another process ended, which may be no child of ours. */
#ifndef JESPAN_ENDING_H
#define JESPAN_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "snapshot/snapshot.h"

/* Facts that are remembered of a process while it lives. */
struct ending_watch {
    pid_t pid;
    int pidfd;
    int kills_fd; /* a file with a line "oom_kill N" that concerns the process; -1: none */
    uint64_t kills, later_kills; /* by the last look but one, and by the last; they are ENDING_LOOK_EVERY_NS apart or more */
    uint64_t next_look_ns;
};

struct ending {
    bool is_known; /* false: the system does not tell */
    int signal;    /* 0: the process ended by itself, with `status` */
    int status;
    bool by_oom_killer;
    uint64_t by_ns; /* the process had ended by then, on the monotonic clock */
};

/* Called while the process lives. `pidfd` remains the caller's. */
void ending_watch(struct ending_watch *w, pid_t pid, int pidfd);

/* Called again and again while the process lives, so that only kills of the last minute count: others in the same cgroup may be
 * killed too, and the file may be about the whole machine. A process that is killed may be read and live on for seconds. */
#define ENDING_LOOK_EVERY_NS UINT64_C(30000000000)
void ending_look(struct ending_watch *w, uint64_t now_ns);
void ending_forget(struct ending_watch *w);

/* Called once the pidfd is readable. */
struct ending ending_of(const struct ending_watch *w);

/* "ended with status 1", "was killed by signal 9", "was killed by the OOM killer", "ended". */
#define ENDING_TEXT_BYTES 64
const char *ending_text(char text[ENDING_TEXT_BYTES], const struct ending *e);

/* ---- The line at the end: the context with the most bytes in use ---- */

#define LINE_HOLDER_BYTES 160

struct line_holder {
    uint64_t all_bytes; /* in use by all contexts */
    uint64_t bytes;     /* in use by the one that has most */
    char path[LINE_HOLDER_BYTES];
};

/* Writes the context with the most bytes in use, now or at the peak of the process. */
void line_find_holder(struct line_holder *h, const struct snapshot *s, bool at_peak);

/* Writes "1.5 GiB". Returns `text`. */
#define LINE_SIZE_BYTES 24
const char *line_size(char text[LINE_SIZE_BYTES], uint64_t bytes);

/* Writes the name of a program, with ? for control characters. */
void line_name(FILE *to, const char *name);

/* Writes a path, which may have any characters, as a word of a shell: readers copy it into their next command. */
void line_path(FILE *to, const char *path);

#endif
