/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of a profile. */
#ifndef JESPAN_PPROF_HEAD_H
#define JESPAN_PPROF_HEAD_H

#include "pprof_kind.h"
#include "pprof_mapping.h"
#include "pprof_strings.h"
#include "snapshot/snapshot.h"

/* The texts that the string table refers to while it is in use. */
struct pprof_head {
    struct pprof_mapping mapping;
    char comment[128];
};

/* Writes sample types, period, mapping, times and the comment. `head` must live as long as `strings`. */
void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot);

#endif
