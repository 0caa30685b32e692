/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API, looked up in the running process. So one program runs with and without jespan. */
#ifndef BENCH_SPANS_H
#define BENCH_SPANS_H

#include <jespan/jespan.h>
#include <stdbool.h>

/* Pointers to the functions of jespan.h, and to mallctl. */
struct span_api {
    jespan_span_t *(*open)(const struct jespan_site *, jespan_context_t, const struct jespan_label *, size_t);
    int (*enter)(jespan_span_t *);
    int (*exit)(jespan_span_t *);
    void (*close)(jespan_span_t *);
    void (*block_enter)(struct jespan_block *, const struct jespan_site *, const char *const *, size_t);
    void (*block_exit)(struct jespan_block *);
    jespan_context_t (*current)(void);
    int (*set_limit)(jespan_context_t, uint64_t, uint64_t);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
};
extern struct span_api span_api;

/* Looks up the API. With `inside`, opens the span that spans_enter_if_wanted() enters. Ends the program if the API is
 * needed and missing. Called once, before threads start. */
void spans_find(bool needed, bool inside);

/* Enters the span on the calling thread and never leaves it, if the run was asked to be inside a span. */
void spans_enter_if_wanted(void);

/* Opens a span of `site` whose only label is `number`, so that it has its own context. Ends the program on failure. */
jespan_span_t *spans_open_numbered(const struct jespan_site *site, uint32_t number);

#endif
