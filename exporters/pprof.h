/* SPDX-License-Identifier: BSD-2-Clause */
/* The exporter module `pprof`: its one symbol and its limits. */
#ifndef JESPAN_PPROF_H
#define JESPAN_PPROF_H

#include "exporter.h"

/* A longer path keeps its innermost frames and ends in "(path cut)"; of more labels the nearest are kept. Readers
 * written in Python recurse by frame and fail at 1,000. */
#define PPROF_MAX_FRAMES 512
#define PPROF_MAX_LABELS 256

__attribute__((visibility("default"))) EXPORTER_DEFINE(pprof);

#endif
