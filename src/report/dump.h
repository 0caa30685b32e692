/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps: a snapshot through an exporter into a file that is whole or absent. */
#ifndef JESPAN_DUMP_H
#define JESPAN_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "report/exporter.h"
#include "snapshot/snapshot.h"

/* Writes a dump to `path`, in the format of dump_format. A file is written beside it under a temporary name, and then
 * replaces it. A FIFO or character device is written to directly, with a time limit for the reader (dump_file.h). On any
 * thread, with no lock held. Its memory counts for "(jespan)". Returns 0 or a negative errno. Failures are counted. */
int dump_to_path(enum exporter_profile profile, const char *path);

/* Writes the next numbered dump into conf.dump_dir: the heap profile, and with conf.dump_time the time profile of the
 * same snapshot. It takes the next free number and replaces no file. Then it removes the oldest dumps of this process
 * beyond conf.dump_keep, and of all processes beyond conf.dump_dir_files and conf.dump_dir_bytes. The first of
 * consecutive failures is written to stderr. `reason` is DUMP_N_REASONS for the interval. Returns 0 or a negative errno. */
int dump_next(enum dump_reason reason);

/* The same of a snapshot that the caller has taken. */
int dump_next_of(const struct snapshot *snapshot, enum dump_reason reason);

/* The same when the process may be killed soon. The caller has called meta_emergency_begin(). Uses emergency memory
 * (meta.h), names the file before it is synced, and puts the reason into the name: heap.PID.N.REASON.pb.gz. */
int dump_at_once(enum dump_reason reason);

/* Does everything except the file, in such an emergency, to touch all memory. Returns 0 or a negative errno. */
int dump_rehearse(void);

/* With conf.dump_dir, and without a sidecar: loads the exporter, so that a later dump has it whatever state the program is in. */
void dump_boot(void);

uint64_t dump_count(void);
uint64_t dump_lost_count(void);
uint64_t dump_count_for(enum dump_reason reason); /* of an event */

/* dump_count_for() shows these from now on, one for each event: those of the sidecar, which writes the dumps. */
void dump_show_counts(_Atomic uint64_t *counts);

/* In a forked child: numbers and counts start again. */
void dump_after_fork(void);

#endif
