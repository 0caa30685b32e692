/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of numbered dumps, and the directory that many processes write them to.
 *
 * A name is PROFILE.PID.NUMBER and the suffix of the exporter, with more parts where they are needed:
 *
 *     heap.17.3.pb.gz                    the third dump of process 17
 *     heap.17.1795383775123.3.pb.gz      the same after an earlier process 17 has left files: with its life
 *     heap.17.3.oom.pb.gz                the same for an event (dump_on)
 *     heap.17.3.pb.gz.17.0badcafe.tmp    the first while it is written
 *
 * Only files with such names are looked at. Only regular files of this process's user are removed. Functions of names
 * are pure. Functions of the directory run on one thread at a time (under the mutex of dump.c). Nothing here
 * allocates.
 */
#ifndef JESPAN_DUMP_DIR_H
#define JESPAN_DUMP_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "report/exporter.h"

/* ---- Names ---- */

#define DUMP_NAME_BYTES 160 /* enough for any name */

extern const char *const dump_profile_names[EXPORTER_N_PROFILES];

struct dump_name {
    enum exporter_profile profile;
    uint64_t pid;
    uint64_t life;   /* 0: the name has none */
    uint64_t number; /* from 1 */
    enum dump_reason reason; /* DUMP_N_REASONS: the interval, not an event */
    const char *suffix;      /* of the exporter: ".pb.gz" */
    bool is_temporary;       /* the numbers of a temporary file's end are not kept */
};

/* The suffix of this process's dumps, which other files with that suffix are dumps by, too. It is kept. Suffixes of
 * exporters that come with jespan are known already. */
void dump_name_know_suffix(const char *suffix);

/* The suffixes that are known; the end is NULL. */
const char *const *dump_name_suffixes(void);

/* Writes the name of a file that is not temporary. Returns what snprintf() returns. */
int dump_name_make(char *text, size_t bytes, const struct dump_name *name);

/* Whether `text` is exactly such a name, temporary or not. */
bool dump_name_parse(struct dump_name *name, const char *text);

/* Whether both are files of one dump, which has one file for each profile. */
bool dump_name_is_same_dump(const struct dump_name *a, const struct dump_name *b);

/* ---- The directory ---- */

/* Returns the life for the names of a process that has no dump in the directory yet. It is 0 if no other process with
 * this pid has left dumps. Otherwise it is the time in milliseconds since 1970, or one more than the largest life
 * there. Removes temporary files that such processes have left. */
uint64_t dump_dir_new_life(const char *directory, uint64_t pid);

/* Removes the oldest dumps of all processes until there are at most `max_files` files and `max_bytes` bytes (0: no
 * limit). The files of one dump are removed together. `newest` stays. */
void dump_dir_keep(const char *directory, uint64_t max_files, uint64_t max_bytes, const struct dump_name *newest);

/* Removes the directory if it is empty and has the name that `jespan run` gives it: jespan.PROGRAM.PID. */
void dump_dir_remove_empty(const char *directory, uint64_t pid);

/* Makes the directory if it is missing and has such a name, with any PID: with --in-process, `jespan run` leaves that to
 * the first dump. Returns 0, or -ENOTDIR if somebody else has made something other than a directory there. */
int dump_dir_make(const char *directory);

/* Somebody may remove the directory while the process runs. The first function notes that it is there, if it is. The other
 * makes it again if it was noted and is missing, but not the directories above it. False: it did not. */
void dump_dir_note(const char *directory);
bool dump_dir_make_again(const char *directory);

#endif
