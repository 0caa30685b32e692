/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's size classes, asked of it once at boot.
 *
 * Classes below one page (4 KiB) get a number from 1 in rising order; their objects' headers lie in tables. Everything
 * from 4 KiB on is "big": at most one object starts in a page, and its header is the page map entry itself.
 */
#ifndef JESPAN_CLASSES_H
#define JESPAN_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"

#define HEADER_PAGE_BITS 12
#define HEADER_PAGE_BYTES ((size_t)1 << HEADER_PAGE_BITS)

/* Usable bytes by class number. Where `classes_of_arenas`, each class has a second number, CLASS_IN_ARENA higher, for what waits to
 * be freed into a span arena: such objects are no magazine's. */
extern uint32_t class_bytes[CLASSES_MAX];
#define CLASS_IN_ARENA (CLASSES_MAX / 2)
extern bool classes_of_arenas;

/* By class number: ceil(2^64 / bytes). What is a multiple of the class's bytes, times this, is less than this, modulo 2^64; what
 * is none is not. For numbers up to 2^32. */
extern uint64_t class_reciprocal[CLASSES_MAX];

/* By class number: pages of one of jemalloc's slabs of that class, 0: not known. */
extern uint8_t class_slab_pages[CLASSES_MAX];

/* What a size means for headers. The code is what the page map keeps of it: class number and slot shift, which is
 * floor(log2(bytes)), as objects of the class start at least that far apart. It is kept as what is left of 64 bits below
 * it, so that one shift leaves the slot's number of a page offset that is in the topmost bits. */
struct class_info {
    uint16_t code;  /* class << 8 | (64 - HEADER_PAGE_BITS + slot shift), or CODE_BIG */
    uint16_t bytes; /* usable */
};
#define CODE_BIG 0xfeu /* class 0; no page's code is like this */
#define CODE_CLASS(code) ((unsigned)(code) >> 8)
#define CODE_SHIFT_MASK 63u
#define CODE_SLOT_SHIFT(code) (((code) & CODE_SHIFT_MASK) - (64 - HEADER_PAGE_BITS))

extern struct class_info size_to_class[HEADER_PAGE_BYTES / 8 + 1]; /* by size / 8, rounded up */

/* For a request, or a usable size, of up to HEADER_PAGE_BYTES. */
HOT_INLINE struct class_info class_of(size_t bytes)
{
    return size_to_class[(bytes + 7) / 8];
}

/* For any request. */
HOT_INLINE struct class_info class_of_request(size_t bytes)
{
    return likely(bytes <= HEADER_PAGE_BYTES) ? class_of(bytes) : (struct class_info){CODE_BIG, 0};
}

/* The same where the object shall be aligned: jemalloc's slabs begin at pages, so objects are aligned to every power of
 * two that divides their size, and the size is rounded up to a multiple of the alignment. CODE_BIG, too, where that is
 * not so: the alignment is no power of two, or larger than a page. */
HOT_INLINE struct class_info class_of_aligned_request(size_t alignment, size_t bytes)
{
    size_t below = alignment - 1;
    if (unlikely(bytes > HEADER_PAGE_BYTES || below >= HEADER_PAGE_BYTES || alignment & below))
        return (struct class_info){CODE_BIG, 0};
    struct class_info info = class_of_request((bytes + below) & ~below);
    return likely(!(info.bytes & below)) ? info : (struct class_info){CODE_BIG, 0};
}

void classes_boot(void);

#endif
