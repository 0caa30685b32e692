/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of another process. Several threads share one snapshot while they need it, and its memory is used again
 * afterwards. All functions are for any thread, but for open and close.
 */
#ifndef JESPAN_READINGS_H
#define JESPAN_READINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/exporter.h"
#include "snapshot/snapshot.h"

struct readings;

/* Opens the books of a process (view_open()). Returns 0 or a negative errno of view.h. */
int readings_open(struct readings **r, pid_t pid, const struct exporter *exporter);

/* Frees everything. False: a thread still uses a snapshot, and nothing is freed. */
bool readings_close(struct readings *r);

/* Reads the process, and gives back `old` (or NULL). Once the process has ended or executed another program, it
 * returns the last reading. NULL: there is none, and `old` is unchanged. */
struct snapshot *readings_next(struct readings *r, struct snapshot *old);

/* The last reading, to be given back. NULL: there is none. *age_ns: how long ago it was taken. */
struct snapshot *readings_last(struct readings *r, uint64_t *age_ns);

/* Accepts NULL. */
void readings_give_back(struct readings *r, struct snapshot *s);

/* 0, or why the last attempt to read failed: a negative errno of view.h. */
int readings_error(struct readings *r);

const struct program *readings_program(const struct readings *r);

#endif
