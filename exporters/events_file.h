/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of events. It is made when the first line is written, and never grows beyond its bound. */
#ifndef JESPAN_EVENTS_FILE_H
#define JESPAN_EVENTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/service.h"

#define EVENTS_PIECE_BYTES ((size_t)16 << 10) /* the longest piece that can be added */

struct events_file {
    const struct service_host *host;
    char path[CONF_STRING_BYTES + 32];
    int fd; /* −1: not made yet */
    bool is_full;   /* the bound is reached */
    bool is_broken; /* an error, which was said */
    uint64_t bytes, max_bytes;
    uint64_t left_out; /* lines beyond the bound, or after the error */
    size_t n;
    char buffer[(size_t)256 << 10];
};

/* `path` may be empty: then all lines are ignored. A process that `jespan run` did not start itself gets a file of its own:
 * its number is added to the name. */
void events_file_open(struct events_file *f, const struct service_host *host, const char *path, uint64_t max_bytes);

static inline bool events_file_is_wanted(const struct events_file *f)
{
    return f->path[0] != '\0';
}

/* The place for a piece of at most EVENTS_PIECE_BYTES, which events_file_added() then adds up to `end`. NULL: it is left
 * out, and counted. */
char *events_file_line(struct events_file *f);
void events_file_added(struct events_file *f, const char *end);

/* Writes what was added. */
void events_file_flush(struct events_file *f);

/* Adds the last piece, for which there is always room, and closes the file, if it was made. */
void events_file_close(struct events_file *f, const char *last);

#endif
