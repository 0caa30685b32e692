/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds most: the contexts with the most bytes in use, as text, with no more memory than what is set aside. */
#ifndef JESPAN_OWNERS_H
#define JESPAN_OWNERS_H

#include <stddef.h>

#define OWNERS_SHOWN 3
#define OWNERS_TEXT_BYTES 420

/* "BYTES bytes in outer;inner{key=value}, …" of the three largest; of a long path the inner end. What is freed but still
 * buffered counts as in use. Any thread, no lock held. */
void top_holders_describe(char text[OWNERS_TEXT_BYTES]);

#endif
