/* SPDX-License-Identifier: BSD-2-Clause */
/* The workloads of the benchmark, and functions that all of them use.
 *
 * A workload calls only malloc, calloc, realloc and free of the process, so the same program measures any preloaded
 * allocator. Its own arrays come from bench_array(), not from the measured heap. Random sequences are fixed: each state
 * starts with the same seed.
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum workload_kind {
    WORKLOAD_TIME,     /* nanoseconds of CPU time per operation, any allocator */
    WORKLOAD_SPAN,     /* the same, jespan only */
    WORKLOAD_MEMORY,   /* bytes of RSS per object, any allocator */
    WORKLOAD_PEER,     /* as WORKLOAD_TIME, small enough for the slowest profilers */
    WORKLOAD_HEAP,     /* as WORKLOAD_TIME, over heaps of growing size */
    WORKLOAD_IDLE,     /* bytes of RSS that an idle thread keeps, any allocator */
    WORKLOAD_CONTEXTS, /* as WORKLOAD_SPAN, with a growing number of contexts */
    WORKLOAD_SNAPSHOT, /* milliseconds of elapsed time, or bytes, for a snapshot of a growing number of contexts */
    WORKLOAD_PAUSE,    /* microseconds that snapshots hold up a thread that allocates */
    WORKLOAD_TIMED,    /* as WORKLOAD_SPAN, with every way to track time */
    WORKLOAD_STACKS,   /* as WORKLOAD_SPAN, with every mode of stacks */
};

/* The results of a workload, up to the first without a name. Most have one "value". */
#define BENCH_FIGURES 4
struct bench_result {
    struct bench_figure {
        const char *name;
        double value;
    } figures[BENCH_FIGURES + 1];
};

/* One row of the table in workloads.c. To add a workload, add a row there and, if its shape is new, a file. */
struct workload {
    const char *name;
    const char *help;
    const void *shape; /* parameters of the functions below */
    void *(*start)(const void *shape);
    void (*round)(void *state, size_t operations);
    void (*stop)(void *state);
    struct bench_result (*figure)(const void *shape); /* with this, a workload has no other function */
    size_t warmup_operations;
    unsigned round_ms; /* length of one inner round; 0 takes the default */
    enum workload_kind kind;
};

extern const struct workload workloads[];

/* Shapes, and the functions that use them. */
struct churn_shape {
    uint32_t live, min_bytes, max_bytes; /* number of live objects, and the range of their sizes, evenly distributed */
};
void *pair_start(const void *shape);
void pair_round(void *state, size_t operations);
void *churn_start(const void *shape);
void churn_round(void *state, size_t operations);
void churn_stop(void *state);
void batch_round(void *state, size_t operations);
void aligned_round(void *state, size_t operations);
void *calloc_start(const void *shape);
void calloc_round(void *state, size_t operations);
void realloc_round(void *state, size_t operations);

struct threads_shape {
    unsigned threads;
    const void *shape; /* of the workload that each thread runs */
    void *(*start)(const void *shape);
    void (*round)(void *state, size_t operations);
    void (*stop)(void *state);
};
void *threads_start(const void *shape);
void threads_round(void *state, size_t operations);
void threads_stop(void *state);

struct handover_shape {
    uint32_t min_bytes, max_bytes;
};
void *handover_start(const void *shape);
void handover_round(void *state, size_t operations);
void handover_stop(void *state);

struct span_shape {
    size_t args; /* name and labels: 1, or 1 + 2 for each label */
};
void *span_start(const void *shape);
void span_enter_exit_round(void *state, size_t operations);
void span_pair_round(void *state, size_t operations);
void span_distinct_round(void *state, size_t operations);
void span_users_round(void *state, size_t operations);
void span_block_round(void *state, size_t operations);
void span_clock_round(void *state, size_t operations);
void span_stop(void *state);

struct contexts_shape {
    uint32_t contexts;
    uint32_t threads;  /* for snapshots: each thread allocates in every context */
    uint32_t heap_mib; /* for snapshots: other live memory */
    uint32_t moved, apart; /* for snapshots: so many contexts change between two, one of `apart` */
    bool closed;           /* for snapshots: their spans are closed */
};
void *contexts_start(const void *shape);
void contexts_pair_round(void *state, size_t operations);
void contexts_roam_round(void *state, size_t operations);
void contexts_stop(void *state);
void *refused_start(const void *shape);
void refused_round(void *state, size_t operations);
void refused_stop(void *state);
struct bench_result snapshot_ms(const void *shape);
struct bench_result snapshot_bytes_per_context(const void *shape);
struct bench_result snapshot_pauses(const void *shape);
struct bench_result snapshot_pauses_of_opens(const void *shape);

/* The shape is the number of objects. */
void *region_start(const void *shape);
void region_round(void *state, size_t operations);
void region_stop(void *state);

struct stacks_shape {
    uint32_t stacks; /* so many of up to 16,384 */
    int frame_pointers;
    uint32_t near; /* so many stacks in a row differ only in the innermost calls. 0: any call may differ */
};
void *stacks_start(const void *shape);
void stacks_round(void *state, size_t operations);
void stacks_stop(void *state);

/* Nanoseconds of a fork. The shape is the size of an object that the child allocates; 0: none. */
struct bench_result fork_ns(const void *shape);

struct memory_shape {
    size_t object_bytes, total_bytes;
};
struct bench_result memory_bytes_per_object(const void *shape);

struct idle_shape {
    unsigned threads;
    uint32_t live, min_bytes, max_bytes; /* what each of them replaced by chance and freed, as in churn_shape */
};
struct bench_result memory_bytes_per_idle_thread(const void *shape);

/* The resident memory of the process, counted by pages. */
size_t bench_resident_bytes(void);

/* Returns zeroed and touched memory from the system. Ends the program if there is none. */
void *bench_array(size_t bytes);
void bench_array_free(void *array, size_t bytes);

static inline struct bench_result bench_value(double value)
{
    return (struct bench_result){{{"value", value}}};
}

static inline uint64_t bench_now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Writes an error message and ends the program with status 1. */
_Noreturn void bench_fail(const char *what);

/* Marsaglia's xorshift64: the same sequence on every machine, three instructions in each step. */
#define BENCH_SEED 0x9e3779b97f4a7c15u
static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* Scales the upper half of `random` to 0 … n − 1 without a division. */
static inline uint32_t bench_below(uint64_t random, uint32_t n)
{
    return (uint32_t)(((random >> 32) * n) >> 32);
}

/* Writes to an object, as a program would. The compiler then cannot remove the calls of malloc and free. */
static inline void *bench_touch(void *object)
{
    if (__builtin_expect(!object, 0)) {
        bench_fail("out of memory");
    }
    *(volatile char *)object = 1;
    __asm__ volatile("" : : "r"(object) : "memory");
    return object;
}

#endif
