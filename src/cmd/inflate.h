/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a file, plain or gzipped, into memory. */
#ifndef JESPAN_CMD_INFLATE_H
#define JESPAN_CMD_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#define INFLATE_MAX_BYTES ((size_t)1 << 30) /* unpacked */

/* Sets *data, which the caller frees, and *bytes. Returns NULL, or in words why not. */
const char *inflate_file(const char *path, uint8_t **data, size_t *bytes);

#endif
