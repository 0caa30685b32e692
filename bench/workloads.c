/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of workloads. */
#include "workload.h"

#include <stddef.h>

#define CHURN(live_, min_, max_) (&(const struct churn_shape){live_, min_, max_})
#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

/* Enough objects that the fixed cost of a heap and of its page map does not show in the quotient. */
#define RSS(bytes_)                                                                                                    \
    {.name = "rss-" #bytes_,                                                                                           \
     .help = "bytes of RSS per live object of " #bytes_ " bytes",                                                      \
     .kind = WORKLOAD_MEMORY,                                                                                          \
     .shape = &(const struct memory_shape){bytes_, (bytes_) < 256 ? 64 * MIB : 256 * MIB},                             \
     .bytes_per_object = memory_bytes_per_object}

const struct workload workloads[] = {
    {"pair", "malloc(64) and free, at once", CHURN(1, 64, 64), pair_start, pair_round, churn_stop, NULL, 0, 0,
     WORKLOAD_TIME},
    {"churn", "10,000 live objects of 16-1024 B, random replacement", CHURN(10000, 16, 1024), churn_start, churn_round,
     churn_stop, NULL, 100000, 0, WORKLOAD_TIME},
    {"cold", "2,000,000 live objects of 16-256 B, random replacement", CHURN(2000000, 16, 256), churn_start,
     churn_round, churn_stop, NULL, 2000000, 0, WORKLOAD_TIME},
    {"churn-4t", "churn on 4 threads",
     &(const struct threads_shape){4, {10000, 16, 1024}}, threads_start, threads_round, threads_stop, NULL, 400000, 20,
     WORKLOAD_TIME},
    {"handover", "one thread allocates 16-1024 B, another frees", &(const struct handover_shape){16, 1024},
     handover_start, handover_round, handover_stop, NULL, 400000, 20, WORKLOAD_TIME},
    {"realloc", "one realloc of a growth from 16 B to 64 KiB by halves", CHURN(1, 16, 64 * KIB), pair_start,
     realloc_round, churn_stop, NULL, 10000, 0, WORKLOAD_TIME},
    {"calloc", "1,000 live zeroed objects of 16-1024 B, random replacement", CHURN(1000, 16, 1024), calloc_start,
     calloc_round, churn_stop, NULL, 100000, 0, WORKLOAD_TIME},
    {"large", "64 live objects of 32 KiB-1 MiB, random replacement", CHURN(64, 32 * KIB, MIB), churn_start, churn_round,
     churn_stop, NULL, 10000, 0, WORKLOAD_TIME},

    {"enter+exit", "jespan_enter and jespan_exit of an open span", &(const struct span_shape){1}, span_start,
     span_enter_exit_round, span_stop, NULL, 0, 0, WORKLOAD_SPAN},
    {"scope", "JESPAN(\"name\"): open, enter, exit, close", &(const struct span_shape){1}, span_start, span_scope_round,
     span_stop, NULL, 0, 0, WORKLOAD_SPAN},
    {"scope-labels", "JESPAN(\"name\", ...) with two labels", &(const struct span_shape){5}, span_start,
     span_scope_round, span_stop, NULL, 0, 0, WORKLOAD_SPAN},

    RSS(16), RSS(48), RSS(64), RSS(112), RSS(256), RSS(512), RSS(640), RSS(1024), RSS(2560), RSS(4096), RSS(8192),
    {.name = NULL},
};
