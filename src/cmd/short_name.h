/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ functions that fit a line. */
#ifndef JESPAN_CMD_SHORT_NAME_H
#define JESPAN_CMD_SHORT_NAME_H

#include <stddef.h>

/* Shortens a name in place: std::string for its template, and no allocators. A name that is then longer than `wanted` bytes
 * loses its parameters, and if it is still longer, the arguments of its templates. */
void short_name(char *name, size_t wanted);

#endif
