/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: their sizes, and all functions off the hot path. */
#include "heap/magazine.h"

#include <string.h>

#include "base/die.h"
#include "jemalloc/binding.h"

/* The most objects of one class that a thread keeps. jemalloc's own thread cache is cut in return: jemalloc/binding.c.
 */
#define CLASS_BYTES_MAX 32768u
#define MIDDLE_CLASS_BYTES_MAX 65536u /* a free buffer has 32 objects, which would be too many otherwise */
#define CLASS_OBJECTS_MAX 128

uint16_t magazine_max[CLASSES_MAX];
static void (*give_to_arena)(struct thread *t, void *p, size_t bytes);

/* Where jemalloc must see every allocation and free, magazine_max stays 0. */
COLD void magazine_boot(void (*to_arena)(struct thread *t, void *p, size_t bytes))
{
    uint32_t entries = MAGAZINE_ENTRIES - CLASSES_MAX - 1; /* each class has a bottom entry; one more follows all magazines */
    give_to_arena = to_arena;
    if (!binding_lets_objects_be_kept())
        return;
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++) {
        uint32_t bytes = class_bytes[class], fit = (bytes > HEADER_PAGE_BYTES ? MIDDLE_CLASS_BYTES_MAX : CLASS_BYTES_MAX) / bytes;
        fit = fit < CLASS_OBJECTS_MAX ? fit : CLASS_OBJECTS_MAX;
        magazine_max[class] = (uint16_t)(fit < entries ? fit : entries);
        entries -= magazine_max[class];
    }
}

void magazine_start(struct thread *t)
{
    struct free_object *bottom = t->magazine;
    if (load_relaxed(&t->magazine_top[CLASSES_MAX - 1])) /* already done. The last top is set last, since a child may be forked meanwhile */
        return;
    store_relaxed(&t->taken_from, &t->magazine_top[0]);
    for (unsigned class = 0; class < CLASSES_MAX; class++) {
        t->magazine_object_bytes[class] = class_bytes[class];
        t->magazine_end[class] = bottom + magazine_max[class];
        store_release(&t->magazine_top[class], bottom);
        bottom += magazine_max[class] + 1;
    }
}

COLD void magazine_forget_taken(struct thread *t)
{
    uint64_t changes = load_relaxed(&tables_changes);
    for (unsigned class = 0; class < CLASSES_MAX; class++)
        magazine_last(t, class)->p = NULL;
    store_relaxed(&t->taken_from, &t->magazine_top[0]);
    __atomic_store_n(&t->tables_seen, changes, __ATOMIC_RELEASE); /* last, since a child may be forked meanwhile */
}

uint32_t magazine_objects(struct thread *t, unsigned class)
{
    struct free_object *top = load_acquire(&t->magazine_top[class]);
    return top ? magazine_max[class] - (uint32_t)(t->magazine_end[class] - top) : 0; /* NULL: not started */
}

static struct free_object *oldest_of(struct thread *t, unsigned class)
{
    return t->magazine_end[class] - magazine_max[class] + 1;
}

/* Clears the entry first. The program's own extent hooks may get the object and free it, and then it must not look like
 * the object that was taken out last. */
static void give_to_jemalloc(struct free_object *object, unsigned class)
{
    void *p = object->p;
    object->p = NULL;
    jespan_je_sdallocx(p, class_bytes[class], 0);
}

/* Removes the first `given` objects of a full magazine. Where these are at least half of them, the others are copied to
 * memory that they do not overlap, so a forked child can do it again. */
static void close_ranks(struct thread *t, unsigned class, uint32_t given)
{
    jespan_assert(given <= magazine_max[class]);
    struct free_object *oldest = oldest_of(t, class);
    memmove(oldest, oldest + given, (magazine_max[class] - given) * sizeof *oldest);
    store_release(&t->magazine_top[class], t->magazine_end[class] - given);
    store_release(&t->spill_class, 0);
}

static uint32_t older_half(unsigned class)
{
    return (magazine_max[class] + 1u) / 2;
}

/* The magazine is empty while objects go to jemalloc, since the program's own extent hooks may allocate. */
NOINLINE void magazine_put_in_full(struct thread *t, size_t class, struct free_object object)
{
    struct free_object *oldest = oldest_of(t, class);
    if (!magazine_max[class]) {
        if (class < CLASS_IN_ARENA)
            give_to_jemalloc(&object, class);
        else
            give_to_arena(t, object.p, class_bytes[class]);
        return;
    }
    store_relaxed(&t->spill_given, 0);
    store_release(&t->spill_class, class);
    store_release(&t->magazine_top[class], oldest - 1);
    for (uint32_t i = 0; i < older_half(class); i++) {
        give_to_jemalloc(&oldest[i], class);
        store_release(&t->spill_given, i + 1);
    }
    close_ranks(t, class, older_half(class));
    magazine_put(t, class, object);
}

/* jemalloc may have got the object at spill_given already, so leak it. */
COLD void magazine_after_fork(struct thread *t)
{
    unsigned class = load_relaxed(&t->spill_class);
    uint32_t given = load_relaxed(&t->spill_given);
    if (class)
        close_ranks(t, class, given < older_half(class) ? given + 1 : given);
}

COLD void magazine_empty(struct thread *t)
{
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++) {
        struct free_object *object;
        while ((object = magazine_take(t, class)))
            give_to_jemalloc(object, class);
    }
}

uint64_t magazine_bytes(struct thread *t)
{
    uint64_t bytes = 0;
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++)
        bytes += (uint64_t)magazine_objects(t, class) * class_bytes[class];
    return bytes;
}
