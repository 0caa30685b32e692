/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of an object: 16 bits outside the object, which hold its tag, the number of the context that owns it.
 *
 *     0                                  no object
 *     below HEADER_PLAIN                 a *plain* tag: itself
 *     HEADER_SPECIAL | n                 n is a plain tag, or HEADER_PLAIN and the upper bits of a *wide* tag. The lower 16 bits of
 *                                        a wide tag are in a second word
 *     the same, with HEADER_SURVIVOR     and the tag has TAG_SURVIVOR
 *
 * For a small object, the second word lies HEADER_MORE_BYTES behind the header, in memory that is touched for wide tags
 * only. For a big object, it is the next one. It is written first and is not cleared: it means something only beside the header
 * of a wide tag.
 *
 * Who changes a header owns the object, or makes it a survivor, which changes the first word alone. A reader that comes too
 * late reads a wrong tag.
 */
#ifndef JESPAN_HEADER_H
#define JESPAN_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Pages of which each has a table of headers. */
#define HEADER_PAGE_BITS 12
#define HEADER_PAGE_BYTES ((size_t)1 << HEADER_PAGE_BITS)

typedef _Atomic uint16_t header_t;

#ifndef HEADER_PLAIN /* a build for tests may have a lower bound, so that nearly all tags are wide */
#define HEADER_PLAIN 0x3f00u
#endif
#define HEADER_SPECIAL 0x8000u
#define HEADER_SURVIVOR 0x4000u
#define HEADER_NUMBER 0x3fffu
#define HEADER_MORE_BYTES ((uintptr_t)1024 * 1024)

/* Marks the tag of an object in a region that another owner has: regions.h. Only headers of span arenas' pages have it,
 * so the fast paths never see it. */
#define TAG_SURVIVOR 0x80000000u

/* Tags are below this, but for TAG_SURVIVOR. */
#define TAGS_MAX (1u << 24)
_Static_assert(HEADER_PLAIN + ((TAGS_MAX - 1) >> 16) <= HEADER_NUMBER, "a header has room for the upper bits");

HOT_INLINE bool tag_is_wide(uint32_t tag)
{
    return (tag & ~TAG_SURVIVOR) >= HEADER_PLAIN;
}

/* ---- The two words ---- */

/* Where the second one is. */
HOT_INLINE header_t *header_more(header_t *header, bool is_big)
{
    return is_big ? header + 1 : (header_t *)((char *)header + HEADER_MORE_BYTES);
}

/* The first word of a tag. */
HOT_INLINE uint16_t header_of_tag(uint32_t tag)
{
    uint32_t id = tag & ~TAG_SURVIVOR, number = id < HEADER_PLAIN ? id : HEADER_PLAIN + (id >> 16);
    uint32_t survivor = tag & TAG_SURVIVOR ? HEADER_SURVIVOR : 0;
    return (uint16_t)(tag < HEADER_PLAIN ? tag : HEADER_SPECIAL | survivor | number);
}

/* Whether the second word means something beside this first word. */
HOT_INLINE bool header_has_more(uint32_t header)
{
    return header & HEADER_SPECIAL && (header & HEADER_NUMBER) >= HEADER_PLAIN;
}

HOT_INLINE uint32_t tag_of_header(uint32_t header, uint32_t more)
{
    uint32_t number = header & HEADER_NUMBER, id = header_has_more(header) ? (number - HEADER_PLAIN) << 16 | more : number;
    return header & HEADER_SPECIAL && header & HEADER_SURVIVOR ? id | TAG_SURVIVOR : id;
}

/* ---- Of an object ---- */

static inline uint32_t header_get(header_t *header, bool is_big)
{
    uint32_t value = load_acquire(header);
    return likely(value < HEADER_PLAIN) ? value : tag_of_header(value, load_relaxed(header_more(header, is_big)));
}

static inline void header_set(header_t *header, bool is_big, uint32_t tag)
{
    if (unlikely(tag_is_wide(tag)))
        store_relaxed(header_more(header, is_big), (uint16_t)tag);
    store_release(header, header_of_tag(tag));
}

/* The same on fast paths, for a tag without TAG_SURVIVOR. */
HOT_INLINE void header_set_fast(header_t *header, bool is_big, uint32_t tag)
{
    if (likely(tag < HEADER_PLAIN)) {
        store_relaxed(header, (uint16_t)tag);
    } else {
        store_relaxed(header_more(header, is_big), (uint16_t)tag);
        store_release(header, (uint16_t)(HEADER_SPECIAL | (HEADER_PLAIN + (tag >> 16))));
    }
}

/* The header with its sign: negative, or the tag. */
HOT_INLINE int32_t header_signed(header_t *header)
{
    int32_t value = (int16_t)load_relaxed(header);
    __asm__("" : "+r"(value)); /* keeps the compiler from carrying a value of 16 bits beside it */
    return value;
}

/* Whether this is the tag, and plain. */
HOT_INLINE bool header_is(header_t *header, uint32_t tag)
{
    return (uint32_t)header_signed(header) == tag;
}

/* Both words, for a big object. */
static inline uint32_t header_pack(uint32_t tag)
{
    return header_of_tag(tag) | (tag_is_wide(tag) ? (tag & 0xffff) << 16 : 0);
}

static inline uint32_t header_unpack(uint32_t words)
{
    return tag_of_header((uint16_t)words, words >> 16);
}

#endif
