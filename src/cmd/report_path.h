/* SPDX-License-Identifier: BSD-2-Clause */
/* A path in words: "outer > inner {key=value}". */
#ifndef JESPAN_CMD_REPORT_PATH_H
#define JESPAN_CMD_REPORT_PATH_H

#include <stdint.h>

#include "profile.h"
#include "report_names.h"
#include "text.h"

#define REPORT_MAX_LABELS 256   /* more are not looked at */
#define REPORT_MAX_COLUMNS 1000 /* a path is made no longer than is needed to fill these */

/* A context, by a sample that has it on its path. */
struct report_place {
    uint32_t sample;
    uint32_t frames, labels; /* how many inner frames, and first labels, of the sample are not part of it */
};

/* Replaces `text` by path and labels. Where a name is another's too, its place in the code stands behind it. */
void report_path(struct text *text, const struct profile *profile, const struct report_names *names,
                 const struct report_place *place);

#endif
