/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that a subcommand writes: complete, or as it was before. */
#ifndef JESPAN_CONSOLE_OUTPUT_H
#define JESPAN_CONSOLE_OUTPUT_H

#include <stdio.h>

/* Has `write` write the file: beside its place, and then moved there. So the file may be one that `write` has read, and after an
 * error there is the old file, or none. In place is written: what is no file, such as a FIFO; a file that is open in this process,
 * as /dev/stdout is, through the descriptor if that can be; a file of another user, or with several names; and where the
 * directory does not permit the other. "-" is standard output. A link to nothing is an error. A signal removes what is not complete.
 * `write` returns 0 or a negative errno, and may be called twice. Returns 0, or prints an error and returns STATUS_WRITE. */
int cmd_write_file(const char *path, int (*write)(FILE *to, const void *data), const void *data);

/* Returns 0, or prints that the name of the output is empty and returns STATUS_USAGE. */
int cmd_output_name(const char *path);

#endif
