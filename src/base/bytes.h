/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of bytes, as people write them. */
#ifndef JESPAN_BYTES_H
#define JESPAN_BYTES_H

#include <stdint.h>

/* Digits, with K, M, G or T for units of 1024. Returns 0 or -EINVAL: it is something else, or too much. */
int bytes_parse(const char *text, uint64_t *bytes);

#endif
