/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the bytes of a dump go: a file under a temporary name, which gets its own when it is whole; or a FIFO or device
 * that is there already.
 *
 * One thread at a time (dump.c's mutex): paths are static, as a thread's stack may be small. Nothing here allocates.
 */
#ifndef JESPAN_DUMP_FILE_H
#define JESPAN_DUMP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_PATH_BYTES 4096

struct dump_file {
    int fd;
    uint64_t give_up_ns; /* of a FIFO or device: when it has had time enough, on the monotonic clock; 0: of a file */
    char temporary[DUMP_PATH_BYTES];
};

enum dump_place { DUMP_PLACE_FILE, DUMP_PLACE_STREAM };

/* What is at a path that somebody asks for. Writes the path to use to `resolved`: that of the file which a symbolic
 * link leads to. Returns an enum dump_place, or a negative errno: EISDIR, EOPNOTSUPP for a block device or a socket,
 * ENOENT for a link that leads nowhere, EACCES where the kernel does not follow it (fs.protected_symlinks). */
int dump_file_look(char resolved[DUMP_PATH_BYTES], const char *path);

/* Creates the temporary file, PATH.PID.STAMP.tmp. Returns 0 or a negative errno. */
int dump_file_begin(struct dump_file *file, const char *path);

/* Opens what is not a file. Returns 0 or a negative errno: ENXIO where nobody reads a FIFO. */
int dump_file_begin_stream(struct dump_file *file, const char *path);

/* Waits for the reader of a FIFO, but not for ever: ETIMEDOUT. */
int dump_file_write(struct dump_file *file, const void *data, size_t bytes);

/* Names the file, in place of what has that name. */
int dump_file_replace(const struct dump_file *file, const char *path);

/* The same where nothing has that name; else EEXIST. */
int dump_file_name(const struct dump_file *file, const char *path);

/* Without this the new name may survive a crash of the machine without the new contents, or the other way round. */
int dump_file_sync_directory(const char *path);

#endif
