/* SPDX-License-Identifier: BSD-2-Clause */
/* A sample's path in words: "outer > inner {key=value}". */
#ifndef JESPAN_CMD_REPORT_PATH_H
#define JESPAN_CMD_REPORT_PATH_H

#include <stdint.h>

#include "profile.h"
#include "text.h"

#define REPORT_MAX_COLUMNS 1000 /* a path is made no longer than is needed to fill these */

/* Replaces `text` by the path and labels of a sample. */
void report_path(struct text *text, const struct profile *profile, uint32_t sample);

#endif
