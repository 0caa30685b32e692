/* SPDX-License-Identifier: BSD-2-Clause */
/* Constants of the program itself. It is never unloaded, so what lies at the address of a constant stays the same, and need
 * not be compared. A library may be unloaded, and another one loaded at its place. */
#ifndef JESPAN_CONSTANTS_H
#define JESPAN_CONSTANTS_H

#include <stdbool.h>
#include <stddef.h>

/* To be called once. Without it, nothing is a constant. */
void constants_boot(void);

/* Whether these bytes, or this text (NULL: no), lie in a part of the program that is read-only once the program runs. Any
 * thread, without a lock. */
bool constants_have(const void *p, size_t bytes);
bool constants_have_text(const char *text);

#endif
