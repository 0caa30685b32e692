/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads numbers of bytes as people write them: 64M. */
#ifndef JESPAN_BYTES_H
#define JESPAN_BYTES_H

#include <stdint.h>

/* Reads digits, perhaps with K, M, G or T for units of 1024. Returns 0, or -EINVAL where the text is something else or
 * the number does not fit. */
int bytes_parse(const char *text, uint64_t *bytes);

#endif
