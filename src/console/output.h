/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that a subcommand writes: complete, or as it was before. */
#ifndef JESPAN_CONSOLE_OUTPUT_H
#define JESPAN_CONSOLE_OUTPUT_H

#include <stdio.h>

/* Has `write` write the file: beside its place, and then moved there. So the file may be one that `write` reads, and after an
 * error there is the old file, or none. A device or FIFO is written to, and "-" is standard output.
 * `write` returns 0 or a negative errno. Returns 0, or prints an error and returns STATUS_WRITE. */
int cmd_write_file(const char *path, int (*write)(FILE *to, const void *data), const void *data);

#endif
