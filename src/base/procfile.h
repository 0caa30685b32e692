/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of /proc and the cgroup file systems, without malloc and stdio, on one thread: each call's text ends the last one's.
 *
 * What is read again and again stays open, as opening costs more than all else; a program may close descriptors that it does not
 * know, so it is made sure of each time that the number still stands for the same file.
 */
#ifndef JESPAN_KEPT_FILE_H
#define JESPAN_KEPT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_PATH_BYTES 1024 /* of a root, a directory or a name at most */

struct procfile {
    int fd; /* 0: none, as standard input is never it */
    dev_t device;
    ino_t inode;
};

/* All that root/directory/file holds, or its beginning; NULL: it cannot be read. */
const char *file_text(const char *root, const char *directory, const char *file);

/* The same, open from then on. */
const char *procfile_text(struct procfile *k, const char *root, const char *directory, const char *file);
void procfile_close(struct procfile *k);

/* UINT64_MAX where text is NULL, or begins with no number: "max", "-1". */
uint64_t text_number(const char *text);

/* The number behind `key` at the beginning of a line; 0 if there is none. */
uint64_t text_value(const char *text, const char *key);

/* Field `number`, from 1 on, of a line of fields between blanks. */
const char *text_field(const char *line, unsigned number, size_t *bytes);

#endif
