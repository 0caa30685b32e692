/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan threads`: the tables (threads_table.c), and the rest (threads.c). */
#ifndef JESPAN_PROCESSES_THREADS_H
#define JESPAN_PROCESSES_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "outside.h"
#include "snapshot/view_threads.h"

struct threads_row {
    const struct view_thread *thread;
    const struct thread_shares *shares;
    const char *name;
};

struct threads_report {
    struct outside process;
    pid_t pid;
    struct view_threads threads;
    struct thread_shares *shares;
    struct threads_row *rows;
};

struct threads_options {
    uint64_t top; /* 0: all */
    bool exact, json;
    unsigned sort;
};

/* The path of a context, as text of any bytes. */
#define THREADS_PATH_BYTES 1024
void threads_path(const struct threads_report *r, uint32_t context, char path[THREADS_PATH_BYTES]);

/* The threads, in the order of the rows. */
void threads_print_table(const struct threads_report *r, const struct threads_options *options);

/* Which thread freed how much of what each context had allocated. Returns 0, or -1 without memory. */
int threads_print_matrix(const struct threads_report *r, const struct threads_options *options);

#endif
