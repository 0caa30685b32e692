/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts of a snapshot with the most bytes in use, as the process itself writes them (snapshot/top_holders.h). */
#ifndef JESPAN_HOLDERS_H
#define JESPAN_HOLDERS_H

#include "snapshot/snapshot.h"
#include "snapshot/top_holders.h"

#define HOLDERS_TEXT_BYTES TOP_HOLDERS_TEXT_BYTES

/* As top_holders_describe(). */
void holders_describe(char text[HOLDERS_TEXT_BYTES], const struct snapshot *s);

#endif
