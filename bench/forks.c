/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures how long a fork takes, with the child's end. Other load only makes it longer, so the best is the result. */
#define _GNU_SOURCE
#include "workload.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 500

struct bench_result fork_ns(const void *shape)
{
    size_t bytes = *(const size_t *)shape;
    uint64_t best = UINT64_MAX;
    free(bench_touch(malloc(64)));
    for (int i = 0; i < FORKS; i++) {
        uint64_t start = bench_now_ns(CLOCK_MONOTONIC);
        pid_t child = fork();
        if (child == 0) {
            if (bytes) {
                free(bench_touch(malloc(bytes)));
            }
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) {
            bench_fail("a forked child failed");
        }
        uint64_t ns = bench_now_ns(CLOCK_MONOTONIC) - start;
        best = ns < best ? ns : best;
    }
    return bench_value((double)best);
}
