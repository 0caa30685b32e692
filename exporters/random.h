/* SPDX-License-Identifier: BSD-2-Clause */
/* Random bytes. The program's own generators are not used. */
#ifndef JESPAN_RANDOM_H
#define JESPAN_RANDOM_H

#include <stddef.h>

void random_fill(void *to, size_t bytes);

#endif
