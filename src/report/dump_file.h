/* SPDX-License-Identifier: BSD-2-Clause */
/* The file, FIFO or device that a dump is written to. A file has a temporary name until it is complete.
 *
 * One thread at a time (under the mutex of dump.c). Paths are static variables, because a thread's stack may be small.
 * Nothing here allocates.
 */
#ifndef JESPAN_DUMP_FILE_H
#define JESPAN_DUMP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_PATH_BYTES 4096

struct dump_file {
    int fd;
    uint64_t give_up_ns; /* time limit of a FIFO or device, on the monotonic clock. 0: a file */
    char temporary[DUMP_PATH_BYTES];
};

enum dump_place { DUMP_PLACE_FILE, DUMP_PLACE_STREAM };

/* Looks what is at a path. Writes the path to use to `resolved`: symbolic links are followed. Returns an enum
 * dump_place, or a negative errno. EISDIR: a directory. EOPNOTSUPP: a block device or a socket. EBUSY: the program has
 * the file open. ENOENT: a link to nothing. EACCES: the kernel does not follow the link (fs.protected_symlinks). */
int dump_file_look(char resolved[DUMP_PATH_BYTES], const char *path);

/* Creates the temporary file, PATH.PID.STAMP.tmp. Returns 0 or a negative errno. */
int dump_file_begin(struct dump_file *file, const char *path);

/* Opens a FIFO or device. Returns 0 or a negative errno. ENXIO: nobody reads the FIFO. */
int dump_file_begin_stream(struct dump_file *file, const char *path);

/* Waits for the reader of a FIFO. ETIMEDOUT: the reader was too slow. */
int dump_file_write(struct dump_file *file, const void *data, size_t bytes);

/* Gives the file its name and replaces a file with that name. */
int dump_file_replace(const struct dump_file *file, const char *path);

/* Gives the file its name. EEXIST: the name is taken. */
int dump_file_name(const struct dump_file *file, const char *path);

/* Without this call, a crash of the machine may keep the new name without the new contents, or the contents without
 * the name. */
int dump_file_sync_directory(const char *path);

#endif
