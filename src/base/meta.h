/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own memory: straight from mmap(2), zeroed, never from the heap that it watches.
 *
 * meta_alloc() gives small pieces that are never returned, so what lies in them may be read at any time by anyone
 * (type- stable). meta_map() gives whole pages, touched only where used, that may go back. Any thread; errno is left
 * alone.
 */
#ifndef JESPAN_META_H
#define JESPAN_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, aligned to 4096 bytes from 4096 bytes on, to 64 from 64 on, else to 8. NULL when the system has no more. At most META_CHUNK_BYTES.
 */
#define META_CHUNK_BYTES ((size_t)256 * 1024)
void *meta_alloc(size_t bytes);

/* Zeroed pages, reserved only: memory is used as it is touched. NULL when the system has no more. */
void *meta_map(size_t bytes);
void meta_unmap(void *p, size_t bytes);

/* Memory for a while: as meta_map(), but on a thread in an emergency from what was set aside, as far as that goes. Pieces
 * are aligned to 64 bytes. All are returned before the emergency ends. */
void *meta_emergency_alloc(size_t bytes);
void meta_return(void *p, size_t bytes);

/* Sets so many bytes aside for emergencies, touched and, where the system allows it, locked; again in a forked child,
 * whose pages are its own then. One thread at a time is in one. Returns 0 or -ENOMEM. */
int meta_set_aside(size_t bytes);
void meta_emergency_begin(void);

/* Returns whether what was set aside sufficed. */
bool meta_emergency_end(void);

/* Bytes handed out by meta_alloc() and mapped by meta_map(), the latter as address space. */
uint64_t meta_alloc_bytes(void);
uint64_t meta_map_bytes(void);

#endif
