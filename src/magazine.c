/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: their sizes, and what is off the hot path. */
#include "magazine.h"

#include "../jemalloc-hooks/binding.h"

#define CLASS_BYTES_MAX 8192 /* what a thread keeps of one class: two objects at least */

uint8_t magazine_max[CLASSES_MAX];

/* Where jemalloc must see every allocation and free, nothing is kept, and these stay 0. */
COLD void magazine_boot(void)
{
    if (!binding_lets_objects_be_kept())
        return;
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++) {
        uint32_t fit = CLASS_BYTES_MAX / class_bytes[class];
        magazine_max[class] = (uint8_t)(fit < MAGAZINE_MAX ? fit : MAGAZINE_MAX);
    }
}

COLD void magazine_empty(struct thread *t)
{
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++) {
        struct free_object *object;
        while ((object = magazine_take(t, class)))
            jespan_je_sdallocx(object->p, class_bytes[class], 0);
    }
}

uint64_t magazine_bytes(struct thread *t)
{
    uint64_t bytes = 0;
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++)
        bytes += (uint64_t)(load_relaxed(&t->magazine_top[class]) - t->magazine[class]) * class_bytes[class];
    return bytes;
}
