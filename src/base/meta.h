/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own memory. It comes from mmap(2), zeroed, never from the heap that jespan watches.
 *
 * meta_alloc() gives small pieces that are never returned, so any thread may read them at any time (they are
 * type-stable). meta_map() gives whole pages, which may be returned. Any thread may call these functions. They leave
 * errno alone.
 */
#ifndef JESPAN_META_H
#define JESPAN_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a zeroed piece of at most META_CHUNK_BYTES. It is aligned to 4096 bytes if it has 4096 bytes or more, to 64
 * if it has 64 or more, else to 8. Returns NULL when the system has no more memory. */
#define META_CHUNK_BYTES ((size_t)256 * 1024)
void *meta_alloc(size_t bytes);

/* Returns zeroed pages, which take memory only as they are touched, or NULL when the system has no more. */
void *meta_map(size_t bytes);
void meta_unmap(void *p, size_t bytes);

/* Gives memory to all of these pages at once, without a page fault for each. Returns 0 or a negative errno: -EINVAL from Linux before
 * 5.14. Those for whom it only saves time need not look. */
int meta_touch(void *p, size_t bytes);

/* As meta_map(), at such an address that byte `hot` is the first of a range with a page table of its own (META_RANGE_BYTES). So
 * what is touched first, from there on, shares one page table, which each fork copies. */
#define META_RANGE_BYTES ((size_t)2 << 20)
void *meta_map_hot(size_t bytes, size_t hot);

/* An array that never moves and gets its memory as it grows. It takes no address space before. */
struct meta_array {
    char *start;
    size_t mapped, most; /* bytes */
    bool is_watched;
};

/* Chooses the addresses of an array of at most `most` bytes. Returns 0 or -ENOMEM. To be called at boot. */
int meta_array_begin(struct meta_array *a, size_t most);

/* Maps at least the first `bytes` of the array. Returns false when out of memory. One thread at a time. */
bool meta_array_grow(struct meta_array *a, size_t bytes);

/* The state file, if there is one, gets a copy of the array; of all that meta_alloc() gives from now on. */
void meta_array_watch(struct meta_array *a);
void meta_watch(void);

/* As meta_map(), but a thread in an emergency gets emergency memory while there is enough of it. Pieces are aligned to
 * 64 bytes. All must be returned before the emergency ends. */
void *meta_emergency_alloc(size_t bytes);
void meta_return(void *p, size_t bytes);

/* Sets emergency memory aside, touches it, and locks it where the system allows that. A forked child does so again, to
 * have pages of its own. One thread at a time is in an emergency. Returns 0 or -ENOMEM. */
int meta_set_aside(size_t bytes);
void meta_emergency_begin(void);

/* Returns whether the emergency memory was enough. */
bool meta_emergency_end(void);

/* Bytes that meta_alloc() gave out, and bytes of address space that meta_map() has mapped. */
uint64_t meta_alloc_bytes(void);
uint64_t meta_map_bytes(void);

/* ---- A bump allocator ---- */

/* It gives pieces and frees all of them at once. One thread at a time. */

struct bump_chunk;

/* Zeroed, it is empty. */
struct bump {
    struct bump_chunk *chunks;
};

/* Returns zeroed memory, or NULL when the system has no more. `bytes` is at most META_CHUNK_BYTES / 2, and a multiple
 * of 8 where the next piece must be aligned. */
void *bump_alloc(struct bump *r, size_t bytes);
void bump_free(struct bump *r);

#endif
