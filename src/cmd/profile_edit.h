/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds functions and lines to a profile that was read, and writes it. All else in it stays as it was, also what this code does
 * not know. */
#ifndef JESPAN_CMD_PROFILE_EDIT_H
#define JESPAN_CMD_PROFILE_EDIT_H

#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "profile.h"

struct profile_edit {
    struct profile *profile;
    size_t string_room, function_room;
    struct hash_table strings, functions; /* that were added, by their contents */
    uint64_t next_function;
};

struct profile_line {
    uint64_t function;
    int64_t line;
};

/* The edit is freed by the caller; the profile keeps what was added. */
void profile_edit_begin(struct profile_edit *edit, struct profile *profile);
void profile_edit_end(struct profile_edit *edit);

/* Sets *id to a function with these texts. Returns 0 or -ENOMEM. */
int profile_edit_function(struct profile_edit *edit, const char *name, const char *system, const char *file, int64_t start_line,
                          uint64_t *id);

/* Gives a location its lines, the innermost function first. Returns 0 or -ENOMEM. */
int profile_edit_lines(struct profile_edit *edit, JespanPprof__Location *location, const struct profile_line *lines, size_t n);

/* Writes the profile, gzipped. Returns 0 or a negative errno. */
int profile_write(const struct profile *profile, int fd);

#endif
