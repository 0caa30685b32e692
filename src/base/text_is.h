/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares a text of the program with a copy that was kept of it, whose length is known.
 *
 * It reads 16 bytes at a time, at addresses that 16 divides. So it may read bytes before and behind the text, but only
 * of a block that has a byte of the text, which is on the same page. */
#ifndef JESPAN_TEXT_IS_H
#define JESPAN_TEXT_IS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#if defined(__SSE2__) && !UNDER_ASAN && !UNDER_TSAN
#include <emmintrin.h>
#define TEXT_BLOCKS 1
#else
#define TEXT_BLOCKS 0
#endif

#define TEXT_BLOCK 16u
#define TEXT_MARGIN (TEXT_BLOCK - 1) /* a copy has so many bytes of its own before it and behind it */

#if TEXT_BLOCKS
/* Bit i: the i-th bytes are equal. */
HOT_INLINE uint32_t text_block_equals(uintptr_t block, const char *kept)
{
    __m128i a = _mm_load_si128((const __m128i *)block), b = _mm_loadu_si128((const __m128i *)(const void *)kept);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(a, b));
}

/* Whether the text is `kept`, which has n bytes and a zero. The next block is read only if the text goes on there. */
HOT_INLINE bool text_is(const char *text, const char *kept, size_t n)
{
    size_t before = (uintptr_t)text % TEXT_BLOCK, end = before + n; /* of the zero, from the first block on */
    uintptr_t block = (uintptr_t)text - before;
    uint32_t equal = text_block_equals(block, kept - before) | ((1u << before) - 1);
    for (; end >= TEXT_BLOCK; end -= TEXT_BLOCK) {
        if (unlikely(equal != 0xffff))
            return false;
        kept += TEXT_BLOCK;
        block += TEXT_BLOCK;
        equal = text_block_equals(block, kept - before);
    }
    return !(~equal << (31 - end));
}
#else
HOT_INLINE bool text_is(const char *text, const char *kept, size_t n)
{
    (void)n;
    return !strcmp(text, kept);
}
#endif

#endif
