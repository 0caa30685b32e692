/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps: a snapshot through an exporter into a file that is whole or absent. */
#ifndef JESPAN_DUMP_H
#define JESPAN_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "report/exporter.h"

/* Writes a pprof profile to `path`, replacing a file that is there, by way of a temporary one beside it; into a FIFO
 * or a character device, where it waits for the reader with a limit (dump_file.h). On any thread with no lock held;
 * its allocations are credited to "(jespan)". Returns 0 or a negative errno; a failure is counted. */
int dump_to_path(enum exporter_profile profile, const char *path);

/* The next of this process's numbered dumps into conf.dump_dir: the heap, and the time of the same moment if
 * conf.dump_time. It replaces no file, and gets the next number that is free. Removes the oldest beyond
 * conf.dump_keep, and those of all processes beyond conf.dump_dir_files and conf.dump_dir_bytes. The first of a row of
 * failures is said on stderr. Returns 0 or a negative errno. */
int dump_next(void);

/* The same where it may be the program's last moment: with what was set aside (meta.h), in whose emergency the caller
 * is, named before it is synced, and with the reason in its name: heap.PID.N.REASON.pb.gz. */
int dump_at_once(enum dump_reason reason);

/* All but the file, in such an emergency. Returns 0 or a negative errno. */
int dump_rehearse(void);

/* With conf.dump_dir: loads the exporter, so that a later dump has it whatever state the program is in. */
void dump_boot(void);

uint64_t dump_count(void);
uint64_t dump_lost_count(void);
uint64_t dump_count_for(enum dump_reason reason);

/* In a forked child: numbering starts again, a dump under way in the parent is none of ours. */
void dump_after_fork(void);

#endif
