/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot as a pprof profile: the encoder, which modules share, its limits, and the exporter. */
#ifndef JESPAN_PPROF_H
#define JESPAN_PPROF_H

#include "pprof_kind.h"
#include "report/exporter.h"

/* A longer path keeps its innermost frames and ends in "(path cut)"; of more labels the nearest are kept. Readers
 * written in Python recurse by frame and fail at 1,000. */
#define PPROF_MAX_FRAMES 512
#define PPROF_MAX_LABELS 256

enum pprof_form { PPROF_GZIP, PPROF_PLAIN };

/* Writes the profile to the sink, piece by piece. Returns 0 or a negative errno: the sink's, or -ENOMEM. */
int pprof_encode(const struct snapshot *snapshot, const struct pprof_kind *kind, enum pprof_form form,
                 struct exporter_sink *sink);

/* The exporter, gzipped (pprof_module.c). */
__attribute__((visibility("default"))) EXPORTER_DEFINE(pprof);

#endif
