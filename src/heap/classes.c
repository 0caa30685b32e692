/* SPDX-License-Identifier: BSD-2-Clause */
/* jemalloc's size classes, read once at boot. */
#include "heap/classes.h"

#include "base/die.h"
#include "jemalloc/binding.h"

uint32_t class_bytes[CLASSES_MAX];
struct class_start class_starts[CLASS_PLACES << CLASS_BITS];
uint8_t class_slab_pages[CLASSES_MAX];
uint8_t middle_class[MIDDLE_ROWS];
size_t class_known_bytes;
bool classes_of_arenas;
struct class_row size_to_class[CLASS_ROWS];

/* jemalloc numbers its bins from 0, in rising order of object size. */
static size_t bin_figure(const char *name, size_t bin)
{
    size_t mib[4], length = 4, value = 0, bytes = sizeof value;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return 0;
    mib[2] = bin;
    return jespan_je_mallctlbymib(mib, length, &value, &bytes, NULL, 0) ? 0 : value;
}

static uint8_t slab_pages(size_t bin, size_t usable)
{
    size_t pages = bin_figure("arenas.bin.0.slab_size", bin) / HEADER_PAGE_BYTES;
    return bin_figure("arenas.bin.0.size", bin) == usable && pages <= UINT8_MAX ? (uint8_t)pages : 0;
}

static void find_starts(unsigned class, size_t usable)
{
    uint32_t reciprocal = UINT32_MAX / (uint32_t)usable + 1;
    for (uint32_t place = 0; place < CLASS_PLACE_UNKNOWN; place++)
        class_starts[place << CLASS_BITS | class] =
            (struct class_start){reciprocal, place * (uint32_t)HEADER_PAGE_BYTES * reciprocal};
}

COLD uint32_t class_place(unsigned class, int32_t offset)
{
    int32_t bytes = (int32_t)class_bytes[class];
    uint32_t place = 0;
    while (place < CLASS_PLACE_UNKNOWN && (int32_t)(place * HEADER_PAGE_BYTES + offset) % bytes)
        place++;
    return place;
}

static struct class_info next_class(unsigned class, size_t usable)
{
    uint32_t log2 = 31 - (uint32_t)__builtin_clz((uint32_t)usable);
    uint32_t shift = log2 < HEADER_PAGE_BITS ? log2 : HEADER_PAGE_BITS - 1;
    if (class >> CLASS_BITS) { /* only where it was configured with an --lg-quantum that is not for this machine */
        WARN("this jemalloc has more than 31 size classes of up to 4096 bytes");
        abort();
    }
    class_bytes[class] = (uint32_t)usable;
    find_starts(class, usable);
    class_slab_pages[class] = slab_pages(class - 1, usable);
    return (struct class_info){(uint16_t)(class << 8 | (64 - HEADER_PAGE_BITS + shift)), (uint16_t)usable};
}

static void copy_for_arenas(unsigned class)
{
    class_bytes[class + CLASS_IN_ARENA] = class_bytes[class];
    class_slab_pages[class + CLASS_IN_ARENA] = class_slab_pages[class];
}

/* The slabs of middle classes are not needed: the page map entry says where an object starts. */
static unsigned find_middle_classes(unsigned classes)
{
    for (size_t row = HEADER_PAGE_BYTES / MIDDLE_ROW_BYTES + 1; row < MIDDLE_ROWS; row++) {
        size_t bytes = row * MIDDLE_ROW_BYTES, usable = jespan_je_nallocx(bytes, 0);
        if (usable != class_bytes[classes]) {
            if (classes + 1 >= CLASS_IN_ARENA || !slab_pages(classes, usable))
                break;
            class_bytes[++classes] = (uint32_t)usable;
        }
        if (jespan_je_nallocx(bytes - MIDDLE_ROW_BYTES + 1, 0) == usable)
            middle_class[row] = (uint8_t)classes;
    }
    return classes;
}

#define KNOWN_BYTES_MOST ((size_t)1 << 20)

static void check_big_classes(void)
{
    class_known_bytes = KNOWN_BYTES_MOST;
    for (size_t request = HEADER_PAGE_BYTES + 1; request < KNOWN_BYTES_MOST;) {
        size_t usable = class_big_bytes(request);
        if (jespan_je_nallocx(request, 0) != usable || jespan_je_nallocx(usable, 0) != usable) {
            class_known_bytes = 0;
            return;
        }
        request = usable + 1;
    }
}

COLD void classes_boot(void)
{
    struct class_info info = {0};
    unsigned classes = 0;
    size_t usable = 0;
    for (size_t eights = 0; eights < CLASS_ROWS; eights++) {
        if (eights * 8 > usable || !eights) {
            usable = jespan_je_nallocx(eights ? eights * 8 : 1, 0);
            info = usable <= HEADER_PAGE_BYTES ? next_class(++classes, usable) : (struct class_info){CODE_BIG, 0};
        }
        size_to_class[eights].bytes = info.bytes;
        store_release(&size_to_class[eights].code, info.code); /* the other process looks at the last row first */
    }
    classes_of_arenas = find_middle_classes(classes) < CLASS_IN_ARENA;
    check_big_classes();
    for (unsigned class = 1; class <= classes && classes_of_arenas; class++)
        copy_for_arenas(class);
}

static unsigned class_of_usable(size_t usable)
{
    unsigned class = 1;
    while (class < CLASSES_MAX - 1 && class_bytes[class] != usable)
        class++;
    return class;
}

COLD uint16_t class_code_of_usable(size_t usable)
{
    return (uint16_t)(class_of_usable(usable) << 8 | size_to_class[(usable + 7) / 8].shift);
}

COLD void classes_hide(void)
{
    for (struct class_row *row = size_to_class; row < size_to_class + CLASS_ROWS; row++)
        store_relaxed(&row->class, 0);
}

COLD void classes_show(void)
{
    for (struct class_row *row = size_to_class; row < size_to_class + CLASS_ROWS; row++)
        if (row->bytes && !load_relaxed(&row->class))
            store_relaxed(&row->class, (uint8_t)class_of_usable(row->bytes));
}
