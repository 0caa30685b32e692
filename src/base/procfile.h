/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of /proc and the cgroup file systems, read without malloc and stdio. One thread uses this: a text is valid
 * until the next call.
 *
 * A file that is read repeatedly stays open, since opening costs most. A program may close descriptors that it does not
 * know. So each call checks that the number still stands for the same file.
 */
#ifndef JESPAN_PROCFILE_H
#define JESPAN_PROCFILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_PATH_BYTES 1024 /* most bytes of a root, a directory or a name */

struct procfile {
    int fd; /* 0: none, since jespan never uses standard input */
    dev_t device;
    ino_t inode;
};

/* Returns the text of root/directory/file, or its beginning where it is long; NULL where it cannot be read. */
const char *file_text(const char *root, const char *directory, const char *file);

/* The same, and keeps the file open. */
const char *procfile_text(struct procfile *k, const char *root, const char *directory, const char *file);
void procfile_close(struct procfile *k);

/* The number at the beginning; UINT64_MAX if the text is NULL or does not begin with a number, such as "max" and
 * "-1". */
uint64_t text_number(const char *text);

/* The number after `key` at the beginning of a line; 0 if there is no such line. */
uint64_t text_value(const char *text, const char *key);

/* Field `number` (1 is the first) of a line whose fields are separated by blanks. */
const char *text_field(const char *line, unsigned number, size_t *bytes);

#endif
