/* SPDX-License-Identifier: BSD-2-Clause */
/* A malloc for unit tests of memory exhaustion: while `watching`, allocation number `fail_at` of the process fails, and
 * n_live counts what was allocated and not freed. */
#ifndef JESPAN_TESTS_FAILING_MALLOC_H
#define JESPAN_TESTS_FAILING_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* glibc's own, under the names that remain when a program defines malloc. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static bool watching, and_all_after; /* and_all_after: so do those that follow it */
static long n_calls, fail_at, n_live;

/* Whether this allocation is one to fail. */
static bool fails(void)
{
    bool fail = watching && (++n_calls == fail_at || (and_all_after && n_calls > fail_at));
    if (fail)
        errno = ENOMEM;
    return fail;
}

static void *count(void *memory)
{
    n_live += watching && memory != NULL;
    return memory;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : count(__libc_malloc(bytes));
}

void *calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : count(__libc_calloc(n, bytes));
}

void *realloc(void *memory, size_t bytes)
{
    if (fails())
        return NULL;
    return memory == NULL ? count(__libc_realloc(memory, bytes)) : __libc_realloc(memory, bytes);
}

void free(void *memory)
{
    n_live -= watching && memory != NULL;
    __libc_free(memory);
}

/* From here to stop_failing(), allocation `failing` fails; 0: none does. */
static void start_failing(long failing)
{
    n_calls = n_live = 0;
    fail_at = failing;
    watching = true;
}

static void stop_failing(void)
{
    watching = false;
}

/* Calls run() so that no allocation fails, then each in turn, alone and with all that follow. run() starts and stops.
 * Returns how many allocations there are. */
static inline long fail_each(void (*run)(const void *what, long failing), const void *what)
{
    run(what, 0);
    long n = n_calls;
    for (long i = 1; i <= n; i++)
        for (int all = 0; all < 2; all++) {
            and_all_after = all;
            run(what, i);
        }
    and_all_after = false;
    return n;
}

#endif
