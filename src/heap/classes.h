/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's size classes, read once at boot.
 *
 * Classes up to one page (4 KiB) get a number from 1 in rising order; their objects' headers lie in tables. Everything
 * above is "big": at most one object starts in a page, and its header is the page map entry itself. The next numbers are
 * those of *middle* classes: big objects of up to 14 KiB, which jemalloc makes in slabs. They never change their class
 * where they are, so they wait in free buffers and magazines as small ones do.
 */
#ifndef JESPAN_CLASSES_H
#define JESPAN_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"

/* Usable bytes by class number. If `classes_of_arenas`, each class has a second number, which is CLASS_IN_ARENA higher.
 * It is for objects of span arenas in the free buffer, which go into other magazines: struct arena_magazines. */
extern uint32_t class_bytes[CLASSES_MAX];
extern INTERNAL bool classes_of_arenas;

/* Where objects of small classes start. Slabs begin at pages, and the bytes of each class are 1, 3, 5 or 7 times a power of two up to
 * a page. So where the first object of a page starts depends only on the *place* of the page in its slab: its number, modulo that
 * factor. An object starts at `offset` of a page if place * HEADER_PAGE_BYTES + offset is a multiple of the bytes.
 *
 * A number n below 8 pages is a multiple if and only if n * reciprocal, modulo 2^32, is less than the reciprocal, which is
 * ceil(2^32 / bytes). `first` is that product of the page's own number. If the place is not known, both are 0. */
#define CLASS_BITS 5 /* of the number of a small class */
#define CLASS_PLACES 8
#define CLASS_PLACE_UNKNOWN 7u
struct class_start {
    uint32_t reciprocal, first;
};
extern struct class_start class_starts[CLASS_PLACES << CLASS_BITS]; /* by place << CLASS_BITS | class */

HOT_INLINE bool class_starts_at(size_t place_and_class, uint32_t offset)
{
    const struct class_start *start = &class_starts[place_and_class];
    return offset * start->reciprocal + start->first < start->reciprocal;
}

/* The place of a page that has the start of an object at this offset, which may be negative. */
uint32_t class_place(unsigned class, int32_t offset);

/* By class number: pages of one slab that jemalloc makes for this class; 0: not known. */
extern uint8_t class_slab_pages[CLASSES_MAX];

/* The properties of a size that headers need. The page map keeps the code: class number and slot shift. The slot shift
 * is floor(log2(bytes)), since objects of the class start at least that far apart. For a whole page it is one less, since
 * a shift by 64 would be one by 0. The code has 52 + slot shift. If the page offset is in the topmost bits of a word, a
 * shift to the right by that number gives the slot. */
struct class_info {
    uint16_t code;  /* class << 8 | (64 - HEADER_PAGE_BITS + slot shift), or CODE_BIG */
    uint16_t bytes; /* usable */
};
#define CODE_BIG 0xfeu /* class 0; no page's code is like this. Middle classes have it too */
#define CODE_CLASS(code) ((unsigned)(code) >> 8)
#define CODE_SHIFT_MASK 63u
#define CODE_SLOT_SHIFT(code) (((code) & CODE_SHIFT_MASK) - (64 - HEADER_PAGE_BITS))

/* The same in the table of sizes. The fast paths only read it, and no thread owns it. So it can send all threads off
 * their fast paths at once: another process sets the class of all rows to 0, which *hides* the classes. The magazine of
 * class 0 is always empty, and no page has such a code. So the next allocation of each thread arrives at
 * track_set_header(). All else of a row stays as classes_boot() made it. */
struct class_row {
    union {
        _Atomic uint16_t code;
        struct {
            uint8_t shift;
            _Atomic uint8_t class; /* 0: hidden, or CODE_BIG */
        };
    };
    uint16_t bytes;
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(struct class_row) == 4, "the class is the code's upper byte");

#define CLASS_ROWS (HEADER_PAGE_BYTES / 8 + 2)
extern struct class_row size_to_class[CLASS_ROWS]; /* by size / 8, rounded up. The last one is CODE_BIG */

/* For a requested or usable size of up to HEADER_PAGE_BYTES. */
HOT_INLINE struct class_info class_of(size_t bytes)
{
    const struct class_row *row = &size_to_class[(bytes + 7) / 8];
    return (struct class_info){load_two_bytes(&row->code), row->bytes};
}

/* The class alone, for any request: one load. */
HOT_INLINE size_t class_number_of(size_t bytes)
{
    return likely(bytes <= HEADER_PAGE_BYTES) ? load_byte(&size_to_class[(bytes + 7) / 8].class) : 0;
}

/* For any request. */
HOT_INLINE struct class_info class_of_request(size_t bytes)
{
    return likely(bytes <= HEADER_PAGE_BYTES) ? class_of(bytes) : (struct class_info){CODE_BIG, 0};
}

/* The same for an aligned object. jemalloc's slabs begin at pages, so objects are aligned to every power of two that
 * divides their size. So the size is rounded up to a multiple of the alignment. Returns CODE_BIG also if the alignment
 * is no power of two, or is larger than a page. */
HOT_INLINE struct class_info class_of_aligned_request(size_t alignment, size_t bytes)
{
    size_t below = alignment - 1;
    if (unlikely(bytes > HEADER_PAGE_BYTES || below >= HEADER_PAGE_BYTES || alignment & below))
        return (struct class_info){CODE_BIG, 0};
    struct class_info info = class_of_request((bytes + below) & ~below);
    return likely(!(info.bytes & below)) ? info : (struct class_info){CODE_BIG, 0};
}

/* The class number of a big object of so many bytes, requested or usable. 0: none, and for up to HEADER_PAGE_BYTES. */
#define MIDDLE_ROW_BYTES ((size_t)1024) /* all bounds of middle classes are multiples of it */
#define MIDDLE_ROWS 15
extern uint8_t middle_class[MIDDLE_ROWS];

HOT_INLINE size_t class_of_big(size_t bytes)
{
    size_t row = (bytes + MIDDLE_ROW_BYTES - 1) / MIDDLE_ROW_BYTES;
    return row < MIDDLE_ROWS ? middle_class[row] : 0;
}

/* Whether objects of the class are big. */
HOT_INLINE bool class_is_big(size_t class)
{
    return class_bytes[class % CLASSES_MAX] > HEADER_PAGE_BYTES;
}

/* The usable bytes of a big object that jemalloc makes for a request, or 0 where they are not known without asking it.
 * jemalloc has four classes for each doubling. classes_boot() checks that. */
extern size_t class_known_bytes; /* up to here */

HOT_INLINE size_t class_big_bytes(size_t request)
{
    if (unlikely(request > class_known_bytes))
        return 0;
    size_t below = ((size_t)1 << (61 - __builtin_clzl(request - 1))) - 1;
    return (request + below) & ~below;
}

void classes_boot(void);

/* Whether the class of this code, of a small object, is hidden. */
static inline bool class_is_hidden(uint16_t code)
{
    return !CODE_CLASS(code);
}

/* The code of a usable size below HEADER_PAGE_BYTES, also while classes are hidden. */
uint16_t class_code_of_usable(size_t usable);

/* Hides all classes, as another process may. */
void classes_hide(void);

/* Shows all classes again. Any thread, at any time. */
void classes_show(void);

#endif
