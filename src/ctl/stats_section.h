/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's section of malloc_stats_print() and malloc_stats(): who holds memory, and what jespan itself needs.
 *
 * Its size is bounded. It allocates nothing of the program's heap, and no lock is held while it calls `write`. It needs 8 KiB
 * of stack. */
#ifndef JESPAN_STATS_SECTION_H
#define JESPAN_STATS_SECTION_H

typedef void stats_writer(void *opaque, const char *text);

/* As text. */
void stats_section_write(stats_writer *write, void *opaque);

/* As an object of JSON. */
void stats_section_write_json(stats_writer *write, void *opaque);

#endif
