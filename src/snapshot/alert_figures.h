/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process shows of its rules of `alert` (report/alerts.h): to mallctl, and to readers outside. */
#ifndef JESPAN_ALERT_FIGURES_H
#define JESPAN_ALERT_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define ALERTS_MOST 32

/* The process that evaluates the rules writes this for each of them. */
struct alert_figures {
    _Atomic uint64_t bytes;   /* its value when it was last evaluated */
    _Atomic uint32_t holding; /* 1: it holds */
    _Atomic uint32_t fired;   /* how often it began to hold */
};

struct alerts_shown {
    _Atomic uint32_t n;
    const char *rules[ALERTS_MOST];          /* as in the configuration. They stay */
    _Atomic(struct alert_figures *) figures; /* of all rules: this process's, or those in the page of its sidecar
                                              * (report/sidecar_page.h). NULL: nobody evaluates the rules */
};

extern struct alerts_shown alerts_shown; /* report/alerts.c */

/* ---- The names after spans.alerts.<i>, besides `rule` ---- */

enum alert_figure { ALERT_HOLDING, ALERT_FIRED, ALERT_BYTES, ALERT_N_FIGURES };

static inline const char *alert_figure_name(size_t which)
{
    static const char *const names[ALERT_N_FIGURES] = {"holding", "fired", "bytes"};
    return names[which];
}

static inline uint64_t alert_figure(const struct alert_figures *f, size_t which)
{
    switch (which) {
    case ALERT_HOLDING:
        return load_relaxed(&f->holding);
    case ALERT_FIRED:
        return load_relaxed(&f->fired);
    default:
        return load_relaxed(&f->bytes);
    }
}

#endif
