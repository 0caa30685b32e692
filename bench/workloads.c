/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of workloads. */
#include "workload.h"

#include <stddef.h>

#define CHURN(live_, min_, max_) (&(const struct churn_shape){live_, min_, max_})
#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

/* Random replacement of objects. Warms up with at least as many operations as objects. */
#define REPLACE(name_, help_, kind_, live_, min_, max_, warmup_)                                                       \
    {name_, help_, CHURN(live_, min_, max_), churn_start, churn_round, churn_stop, NULL, warmup_, 0, kind_}

/* Several threads at once. Each has its own objects or its own consumer. */
#define ON_THREADS(name_, help_, threads_, what_, shape_)                                                              \
    {name_, help_, &(const struct threads_shape){threads_, shape_, what_##_start, what_##_round, what_##_stop},        \
     threads_start, threads_round, threads_stop, NULL, (threads_) * (size_t)100000, (threads_) > 16 ? 50 : 20,         \
     WORKLOAD_TIME}

#define TIMED(name_, help_, round_)                                                                                    \
    {name_, help_, &(const struct span_shape){1}, span_start, round_, span_stop, NULL, 0, 0, WORKLOAD_TIMED}

#define SPAN(name_, help_, round_, args_, warmup_)                                                                     \
    {name_, help_, &(const struct span_shape){args_}, span_start, round_, span_stop, NULL, warmup_, 0, WORKLOAD_SPAN}

/* So many objects that the fixed cost of a heap and its page map is negligible. */
#define RSS(bytes_)                                                                                                    \
    {.name = "rss-" #bytes_,                                                                                           \
     .help = "bytes of RSS per live object of " #bytes_ " bytes",                                                      \
     .kind = WORKLOAD_MEMORY,                                                                                          \
     .shape = &(const struct memory_shape){bytes_, (bytes_) < 256 ? 64 * MIB : 256 * MIB},                             \
     .figure = memory_bytes_per_object}

#define IDLE(name_, help_, threads_, live_, min_, max_)                                                                \
    {.name = name_,                                                                                                    \
     .help = "bytes that an idle thread keeps of " help_,                                                              \
     .kind = WORKLOAD_IDLE,                                                                                            \
     .shape = &(const struct idle_shape){threads_, live_, min_, max_},                                                 \
     .figure = memory_bytes_per_idle_thread}

#define STACKS(name_, help_, stacks_, frame_pointers_, near_)                                                          \
    {name_, help_, &(const struct stacks_shape){stacks_, frame_pointers_, near_}, stacks_start, stacks_round, stacks_stop, NULL, \
     20 * (stacks_), 0, WORKLOAD_STACKS}

/* 520 bytes are the mean of 16 to 1024. */
#define HEAP(mib_)                                                                                                     \
    REPLACE("heap-" #mib_ "M", "churn over " #mib_ " MiB of objects", WORKLOAD_HEAP, (uint32_t)(mib_ * MIB / 520), 16, \
            1024, mib_ * MIB / 520)

#define CONTEXTS(count_)                                                                                               \
    {"pair-" #count_, "pair in one of " #count_ " contexts", &(const struct contexts_shape){.contexts = count_},             \
     contexts_start, contexts_pair_round, contexts_stop, NULL, 0, 0, WORKLOAD_CONTEXTS},                               \
    {"roam-" #count_, "enter one of " #count_ " contexts by chance, pair, exit",                                       \
     &(const struct contexts_shape){.contexts = count_}, contexts_start, contexts_roam_round, contexts_stop, NULL, count_,   \
     0, WORKLOAD_CONTEXTS}

#define REFUSED(count_)                                                                                                \
    {"refused-" #count_, "malloc that a limit above " #count_ " contexts refuses",                                      \
     &(const struct contexts_shape){.contexts = count_}, refused_start, refused_round, refused_stop, NULL, 0, 0,             \
     WORKLOAD_CONTEXTS}

#define SNAPSHOT(name_, help_, kind_, figure_, contexts_, threads_, heap_mib_)                                         \
    {.name = name_, .help = help_, .kind = WORKLOAD_##kind_, .figure = figure_,                                        \
     .shape = &(const struct contexts_shape){contexts_, threads_, heap_mib_, 0, 0, false}}

#define SNAPSHOT_OF_CONTEXTS(count_)                                                                                   \
    SNAPSHOT("snapshot-" #count_, "spans.epoch with " #count_ " contexts on 16 threads (ms)", SNAPSHOT, snapshot_ms,   \
             count_, 16, 0),                                                                                           \
    SNAPSHOT("snapshot-rss-" #count_, "bytes of RSS per context that it adds", SNAPSHOT, snapshot_bytes_per_context,   \
             count_, 16, 0)
#define SNAPSHOT_OF_THREADS(count_)                                                                                    \
    SNAPSHOT("snapshot-" #count_ "t", "snapshot-10000 with " #count_ " instead of 16 threads (ms)", SNAPSHOT,          \
             snapshot_ms, 10000, count_, 0)
#define SNAPSHOT_OF_MOVED(name_, help_, apart_, closed_)                                                               \
    {.name = name_, .help = help_, .kind = WORKLOAD_SNAPSHOT, .figure = snapshot_ms,                                   \
     .shape = &(const struct contexts_shape){100000, 16, 0, 1000, apart_, closed_}}
#define SNAPSHOT_OF_HEAP(mib_)                                                                                         \
    SNAPSHOT("snapshot-heap-" #mib_ "M", "snapshot-10000 with " #mib_ " MiB of live objects (ms)", SNAPSHOT,           \
             snapshot_ms, 10000, 16, mib_)
#define PAUSE(count_)                                                                                                  \
    SNAPSHOT("pause-" #count_, "gaps between allocations with " #count_ " contexts on 16 threads (us)", PAUSE,         \
             snapshot_pauses, count_, 16, 0)
#define PAUSE_OF_OPENS(count_)                                                                                         \
    SNAPSHOT("pause-open-" #count_, "gaps between labelled spans with " #count_ " contexts on 16 threads (us)", PAUSE,  \
             snapshot_pauses_of_opens, count_, 16, 0)

#define BATCH(count_)                                                                                                  \
    {"batch-" #count_, "batches of " #count_ " objects of 16-4096 B, allocated and then freed", CHURN(count_, 16, 4096), pair_start, \
     batch_round, churn_stop, NULL, 100000, 0, WORKLOAD_TIME}

#define REGION(count_)                                                                                                 \
    {"region-" #count_, "open a region, " #count_ " objects of 16-256 B, close it", &(const size_t){count_}, region_start, \
     region_round, region_stop, NULL, (count_) < 1000 ? 100 : 10, 0, WORKLOAD_SPAN}

#define FORK(name_, help_, bytes_)                                                                                     \
    {.name = name_, .help = help_, .shape = &(const size_t){bytes_}, .figure = fork_ns, .kind = WORKLOAD_TIME}

static const struct churn_shape churn = {10000, 16, 1024};
static const struct handover_shape handover = {16, 1024};

const struct workload workloads[] = {
    {"pair", "malloc(64) and free, at once", CHURN(1, 64, 64), pair_start, pair_round, churn_stop, NULL, 0, 0,
     WORKLOAD_TIME},
    REPLACE("churn", "10,000 live objects of 16-1024 B, random replacement", WORKLOAD_TIME, 10000, 16, 1024, 100000),
    REPLACE("cold", "2,000,000 live objects of 16-256 B, random replacement", WORKLOAD_TIME, 2000000, 16, 256, 2000000),
    BATCH(10), BATCH(100), BATCH(1000),
    ON_THREADS("churn-2t", "churn on 2 threads", 2, churn, &churn),
    ON_THREADS("churn-4t", "churn on 4 threads", 4, churn, &churn),
    ON_THREADS("churn-16t", "churn on 16 threads", 16, churn, &churn),
    ON_THREADS("churn-64t", "churn on 64 threads", 64, churn, &churn),
    {"handover", "one thread allocates 16-1024 B, another frees", &handover, handover_start, handover_round,
     handover_stop, NULL, 400000, 20, WORKLOAD_TIME},
    ON_THREADS("handover-4t", "2 threads allocate 16-1024 B, 2 others free", 2, handover, &handover),
    ON_THREADS("handover-16t", "8 threads allocate 16-1024 B, 8 others free", 8, handover, &handover),
    {"realloc", "one realloc of a growth from 16 B to 64 KiB by halves", CHURN(1, 16, 64 * KIB), pair_start,
     realloc_round, churn_stop, NULL, 10000, 0, WORKLOAD_TIME},
    {"calloc", "1,000 live zeroed objects of 16-1024 B, random replacement", CHURN(1000, 16, 1024), calloc_start,
     calloc_round, churn_stop, NULL, 100000, 0, WORKLOAD_TIME},
    {"aligned", "1,000 live objects of 16-1024 B, aligned to 64-4096 B, random replacement", CHURN(1000, 16, 1024),
     pair_start, aligned_round, churn_stop, NULL, 100000, 0, WORKLOAD_TIME},
    REPLACE("buffers", "1,000 live objects of 4-14 KiB, random replacement", WORKLOAD_TIME, 1000, 4 * KIB, 14 * KIB, 100000),
    REPLACE("large", "64 live objects of 32 KiB-1 MiB, random replacement", WORKLOAD_TIME, 64, 32 * KIB, MIB, 10000),

    FORK("fork", "fork, _exit and wait, with no threads", 0),
    FORK("fork-malloc", "the same with a malloc(64) in the child", 64),

    SPAN("enter+exit", "jespan_enter and jespan_exit of an open span", span_enter_exit_round, 1, 0),
    SPAN("enter+exit-labels", "the same of a span opened with two labels", span_enter_exit_round, 5, 0),
    SPAN("enter+pair+exit", "the same with a pair inside", span_pair_round, 1, 0),
    SPAN("scope", "JESPAN(\"name\"): open, enter, exit, close", span_block_round, 1, 0),
    SPAN("scope-labels", "JESPAN(\"name\", ...) with two labels", span_block_round, 5, 0),
    SPAN("scope-1000", "JESPAN(\"name\", ...) with one label of 1,000", span_users_round, 1, 10000),
    {"scope-1000-2t", "scope-1000 on 2 threads",
     &(const struct threads_shape){2, &(const struct span_shape){1}, span_start, span_users_round, span_stop}, threads_start, threads_round,
     threads_stop, NULL, 20000, 0, WORKLOAD_SPAN},
    SPAN("open+close", "open and close a span, each of 1,000,000 with a label of its own", span_distinct_round, 1,
         1000000),

    REGION(10), REGION(100), REGION(10000),

    TIMED("clock-read", "one read of the processor's raw clock", span_clock_round),
    TIMED("timed-enter+exit", "enter+exit by what is tracked: two clock reads, if any", span_enter_exit_round),
    TIMED("timed-scope", "scope by what is tracked", span_block_round),

    STACKS("stack", "pair at the end of 16 frames", 1, 0, 0),
    STACKS("stack-fp", "the same, with frame pointers", 1, 1, 0),
    STACKS("stacks-10000", "pair at the end of one of 10,000 stacks by chance", 10000, 0, 0),
    STACKS("stacks-10000-fp", "the same, with frame pointers", 10000, 1, 0),
    STACKS("stacks-near", "10,000 stacks, of which 64 in a row differ in the 3 innermost calls", 10000, 0, 64),
    STACKS("stacks-near-fp", "the same, with frame pointers", 10000, 1, 64),

    IDLE("idle-1000t", "5,000 objects of 16-1024 B, one of 1,000", 1000, 5000, 16, 1024),
    IDLE("idle-100t", "5,000 objects of 16-8192 B, one of 100", 100, 5000, 16, 8192),
    IDLE("idle-light", "20 objects of 16-128 B, one of 1,000", 1000, 20, 16, 128),

    RSS(16), RSS(48), RSS(64), RSS(112), RSS(256), RSS(512), RSS(640), RSS(1024), RSS(2560), RSS(4096), RSS(8192),

    REPLACE("cold-200k", "200,000 live objects of 16-256 B, random replacement", WORKLOAD_PEER, 200000, 16, 256,
            200000),
    HEAP(4), HEAP(64), HEAP(512), HEAP(1024), HEAP(2048), HEAP(4096), HEAP(8192),
    CONTEXTS(10), CONTEXTS(1000), CONTEXTS(100000), CONTEXTS(1000000),
    REFUSED(10), REFUSED(10000),
    SNAPSHOT_OF_CONTEXTS(10), SNAPSHOT_OF_CONTEXTS(1000), SNAPSHOT_OF_CONTEXTS(10000), SNAPSHOT_OF_CONTEXTS(100000),
    SNAPSHOT_OF_CONTEXTS(1000000),
    SNAPSHOT_OF_MOVED("snapshot-moved", "snapshot-100000 after malloc and free in 1,000 contexts side by side (ms)", 1, false),
    SNAPSHOT_OF_MOVED("snapshot-moved-closed", "the same, of contexts whose spans are closed (ms)", 1, true),
    SNAPSHOT_OF_MOVED("snapshot-moved-apart", "snapshot-moved with each hundredth context (ms)", 100, false),
    SNAPSHOT_OF_THREADS(1), SNAPSHOT_OF_THREADS(4), SNAPSHOT_OF_THREADS(64),
    SNAPSHOT_OF_HEAP(64), SNAPSHOT_OF_HEAP(8192),
    PAUSE(1000), PAUSE(100000), PAUSE_OF_OPENS(100000),
    {.name = NULL},
};
