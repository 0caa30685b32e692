/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts with the most bytes in use, as text. Needs no more memory than what is set aside for emergencies. */
#ifndef JESPAN_TOP_HOLDERS_H
#define JESPAN_TOP_HOLDERS_H

#include <stddef.h>

#define TOP_HOLDERS 3
#define TOP_HOLDERS_TEXT_BYTES 420

/* Writes "BYTES bytes in outer;inner{key=value}, …" for the three largest. A long path is cut at its outer end. Objects
 * that are freed but still buffered count as in use. Any thread, no lock held. */
void top_holders_describe(char text[TOP_HOLDERS_TEXT_BYTES]);

#endif
