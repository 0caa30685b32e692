/* SPDX-License-Identifier: BSD-2-Clause */
/* For little_memory.sh: calls every function that allocates, on several threads. NULL is allowed, and must come with
 * ENOMEM. Arguments: none; "lowered" KIB lowers the limit on address space at run time to the present use and KIB more;
 * "works" fails where an allocation fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>

#include "../support/family.h"

#define THREADS 4

JESPAN_SITE(work_site, "work");
JESPAN_SITE_ARENA(arena_site, "arena", JESPAN_ARENA);

static _Atomic int wrong, failures;

static void *checked(void *p, size_t n)
{
    if (!p) {
        failures++;
        if (errno != ENOMEM)
            wrong++;
    } else if (n) {
        memset(p, 1, n);
    }
    errno = 0;
    return p;
}

static void call_all(size_t n)
{
    void *p[8] = {0}, *aligned = NULL;
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    p[0] = checked(malloc(n), n);
    p[1] = checked(calloc(3, n), 3 * n);
    p[2] = checked(realloc(NULL, n), n);
    void *more = n ? checked(realloc(p[2], 3 * n), 3 * n) : NULL;
    p[2] = more ? more : p[2];
    p[3] = checked(aligned_alloc(256, n), n);
    if (posix_memalign(&aligned, 64, n) == 0)
        p[4] = aligned;
    p[5] = checked(mallocx(n, 0x40), n);
    p[6] = checked(reallocarray(NULL, 2, n), 2 * n);
    p[7] = checked(strdup("a string"), 0);
    for (int i = 0; i < 8; i++) {
        if (p[i] && malloc_usable_size(p[i]) == 0)
            wrong++;
        free(p[i]);
    }
    /* Impossible requests give the usual error. */
    if (calloc(huge, 3) || errno != ENOMEM)
        wrong++;
    errno = 0;
    if (aligned_alloc(3, n))
        wrong++;
    (void)!nallocx(n, 0);
}

static void spans(void)
{
    JESPAN("block", "key", "value");
    call_all(100);
    struct jespan_block block __attribute__((cleanup(jespan_exit_block)));
    jespan_enter_block(&block, &arena_site, NULL, 0);
    call_all(200);
    jespan_span_t *span = jespan_open(&work_site, JESPAN_CURRENT, NULL, 0);
    if (span && jespan_enter(span) == 0) {
        call_all(300);
        jespan_exit(span);
    }
    jespan_close(span);
    jespan_set_limit(JESPAN_CURRENT, 0, 1 << 20);
    call_all(5000);
}

static void *run(void *unused)
{
    static const size_t sizes[] = {0, 1, 100, 3000, 20000, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        call_all(sizes[i]);
    spans();
    uint64_t bytes;
    size_t size = sizeof bytes;
    mallctl("spans.all.inuse_bytes", &bytes, &size, NULL, 0);
    if (mallinfo2().uordblks > mallinfo2().arena)
        wrong++;
    malloc_trim(0);
    return unused;
}

static void *fill(void *unused)
{
    static _Atomic(void *) chain;
    for (void **p; (p = malloc(4000)) && failures < 1000;) {
        *p = atomic_exchange(&chain, p);
        if (malloc_usable_size(p) > 100000)
            break;
    }
    return run(unused);
}

static void on_threads(void *(*call)(void *))
{
    pthread_t threads[THREADS];
    int n = 0;
    while (n < THREADS && pthread_create(&threads[n], NULL, call, NULL) == 0)
        n++;
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

int main(int argc, char **argv)
{
    run(NULL);
    if (argc > 1 && !strcmp(argv[1], "works"))
        return wrong || failures;
    on_threads(run);
    if (argc > 1 && !strcmp(argv[1], "lowered")) {
        FILE *statm = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;
        if (statm && fscanf(statm, "%lu", &pages) == 1 && argc > 2) {
            rlim_t room = (rlim_t)pages * 4096 + strtoul(argv[2], NULL, 10) * 1024;
            setrlimit(RLIMIT_AS, &(struct rlimit){room, room});
        }
        on_threads(fill);
        run(NULL);
    }
    if (wrong)
        fprintf(stderr, "%d answers are wrong\n", wrong);
    return wrong != 0;
}
