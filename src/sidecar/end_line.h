/* SPDX-License-Identifier: BSD-2-Clause */
/* The line that the sidecar writes to stderr when the first process has ended. */
#ifndef JESPAN_END_LINE_H
#define JESPAN_END_LINE_H

#include "sidecar/ending.h"
#include "sidecar/served.h"

/* Says how it ended, who held most, and where the dumps are. */
void end_line_say(const struct served *p, const struct ending *e);

/* Says that it was not read. */
void end_line_say_unread(const struct served *p, const struct ending *e);

#endif
