/* SPDX-License-Identifier: BSD-2-Clause */
/* Which programs are pushed to Pyroscope or to a collector.
 *
 * Scripts execute many programs for a moment. Each push has a connection of its own, and each process is a series of its
 * own at the server. So a program is pushed from the end of its first period on, or if it ends before that, has spans. The
 * first push has all since the program began. */
#ifndef JESPAN_SERVED_PUSH_H
#define JESPAN_SERVED_PUSH_H

#include <stdbool.h>

#include "sidecar/served.h"

/* Begins to push the program if its first period is over, or anyway. */
void served_push_if_worth(struct served *p, bool anyway);

/* The program has ended: pushes it if it has spans. */
void served_push_at_end(struct served *p);

#endif
