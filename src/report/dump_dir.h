/* SPDX-License-Identifier: BSD-2-Clause */
/* What other processes, and earlier lives, have left in the directory for dumps.
 *
 * Only files whose names are wholly a dump's (dump_name.h) are looked at, and only regular ones of this process's user
 * are ever removed. One thread at a time (dump.c's mutex). Nothing here allocates.
 */
#ifndef JESPAN_DUMP_DIR_H
#define JESPAN_DUMP_DIR_H

#include <stdint.h>

#include "report/dump_name.h"

/* What a process that has no dump there yet puts into the names of its dumps, so that they are apart from those of
 * others with its number: 0, nothing, where no file of such a one is there; else the time in milliseconds since 1970,
 * or one more than the largest there. Removes temporary files that such a one has left behind. */
uint64_t dump_dir_new_life(const char *directory, uint64_t pid);

/* Removes the oldest dumps, whoever wrote them, until there are at most so many files and bytes (0: any number); a
 * dump's files go together. `newest` stays. */
void dump_dir_keep(const char *directory, uint64_t max_files, uint64_t max_bytes, const struct dump_name *newest);

#endif
