/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a file through zlib, which lets plain files through as they are. */
#include "inflate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define FIRST_BYTES ((size_t)256 << 10)

static const char *grow(uint8_t **data, size_t *capacity)
{
    size_t larger = *capacity == 0 ? FIRST_BYTES : *capacity * 2;
    uint8_t *moved = larger > INFLATE_MAX_BYTES ? NULL : realloc(*data, larger);
    if (moved == NULL)
        return larger > INFLATE_MAX_BYTES ? "more than 1 GiB unpacked" : "out of memory";
    *data = moved;
    *capacity = larger;
    return NULL;
}

/* At the end of the data zlib still knows whether that was the end of the gzip stream. */
static const char *describe_end(gzFile file)
{
    int code;
    gzerror(file, &code);
    switch (code) {
    case Z_OK:
    case Z_STREAM_END:
        return NULL;
    case Z_BUF_ERROR:
        return "the file is truncated";
    case Z_ERRNO:
        return strerror(errno);
    case Z_MEM_ERROR:
        return "out of memory";
    default:
        return "the gzip data is damaged";
    }
}

static const char *read_all(gzFile file, uint8_t **data, size_t *bytes)
{
    size_t capacity = 0;
    for (;;) {
        const char *error = *bytes == capacity ? grow(data, &capacity) : NULL;
        if (error != NULL)
            return error;
        int n = gzread(file, *data + *bytes, (unsigned)(capacity - *bytes));
        if (n <= 0)
            return describe_end(file);
        *bytes += (size_t)n;
    }
}

const char *inflate_file(const char *path, uint8_t **data, size_t *bytes)
{
    *data = NULL;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    gzFile file = gzdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return "out of memory";
    }
    const char *error = read_all(file, data, bytes);
    gzclose_r(file);
    return error;
}
