/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's size classes, asked of it once at boot. */
#include "classes.h"

#include "../jemalloc-hooks/binding.h"

uint32_t class_bytes[CLASSES_MAX];
bool classes_of_arenas;
struct class_info class_of_eights[HEADER_PAGE_BYTES / 8 + 1];

static struct class_info next_class(unsigned class, size_t usable)
{
    uint32_t shift = 31 - (uint32_t)__builtin_clz((uint32_t)usable);
    class_bytes[class] = (uint32_t)usable;
    return (struct class_info){(uint16_t)(class << 8 | (64 - HEADER_PAGE_BITS + shift)), (uint16_t)usable};
}

COLD void classes_boot(void)
{
    struct class_info info = {0};
    unsigned classes = 0;
    size_t usable = 0;
    for (size_t eights = 0; eights <= HEADER_PAGE_BYTES / 8; eights++) {
        if (eights * 8 > usable || !eights) {
            usable = jespan_je_nallocx(eights ? eights * 8 : 1, 0);
            info = usable < HEADER_PAGE_BYTES ? next_class(++classes, usable) : (struct class_info){CODE_BIG, 0};
        }
        class_of_eights[eights] = info;
    }
    classes_of_arenas = classes < CLASS_IN_ARENA;
    for (unsigned class = 1; class <= classes && classes_of_arenas; class++)
        class_bytes[class + CLASS_IN_ARENA] = class_bytes[class];
}
