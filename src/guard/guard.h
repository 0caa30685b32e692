/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots of guarded objects.
 *
 * A slot is address space for one object, with a guard page before and after it. Pages are accessible only while the slot
 * has an object, and only those that the object touches. The object lies at the end of the slot, as near as its alignment
 * allows, or at the beginning. The rest of its pages has a pattern, which is checked when the object is freed. A freed slot
 * goes to the end of a queue, so it stays untouchable while all others are used.
 *
 * The page map has each object as a big one in a claimed page (PAGE_ENTRY_ARENA) of arena 0. So malloc_usable_size(), the owner
 * and the check of pointers work as for other objects, and the fast path of free() leaves it alone.
 *
 * A thread that has taken a slot out of the queue owns it. Reports read slots at any time: the state tells what is there. */
#ifndef JESPAN_GUARD_H
#define JESPAN_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap/thread.h"

#define GUARD_PAGE_BYTES ((size_t)4096)
#define GUARD_SLOT_BYTES (4 * GUARD_PAGE_BYTES) /* the largest object */
#define GUARD_STRIDE_BYTES (GUARD_SLOT_BYTES + GUARD_PAGE_BYTES)
#define GUARD_FRAMES 32
#define GUARD_OWNER_BYTES 200

enum guard_state {
    GUARD_UNUSED,
    GUARD_LIVE,
    GUARD_ENDING, /* a thread frees the object */
    GUARD_FREED,
};

/* Where in the program something was done. */
struct guard_place {
    pid_t thread; /* 0: unknown */
    char name[16];
    uint32_t n;
    uintptr_t frames[GUARD_FRAMES]; /* return addresses, the innermost first */
};

struct guard_slot {
    _Atomic uint32_t state; /* enum guard_state; the last object's, until there is another one */
    bool is_claimed;
    uintptr_t start;
    size_t bytes; /* usable */
    struct guard_place allocated, freed;
    char owner[GUARD_OWNER_BYTES]; /* the path of a freed object's owner */
};

extern struct guard_region {
    uintptr_t start; /* a guard page, a slot, a guard page, a slot, …, a guard page */
    size_t bytes;    /* 0: nothing is guarded */
    uint32_t n;
    struct guard_slot *slots;
} guard_region;

/* Whether the address is in a slot or a guard page. */
HOT_INLINE bool guard_has(const void *p)
{
    return unlikely((uintptr_t)p - guard_region.start < guard_region.bytes);
}

/* Reserves the address space if the configuration asks for it. To be called at boot. */
void guard_boot(void);

/* Returns memory of at least `bytes`, with *usable bytes, or NULL where it cannot be guarded. `left` puts it at the
 * beginning of its slot. */
void *guard_alloc(struct thread *t, size_t bytes, size_t alignment, bool left, size_t *usable);

/* Notes the owner of an object that is about to be freed. The free is not counted yet, so the context is still there. */
void guard_note_owner(const void *p, uint32_t context);

/* Frees an object. Ends the program if it is freed already, or if something wrote beside it. t may be NULL. */
void guard_free(struct thread *t, void *p);

/* Notes the calls that led here. */
void guard_note_place(struct guard_place *place, struct thread *t);

/* The used slot whose object is nearest to an address; NULL: none is near. */
const struct guard_slot *guard_nearest(uintptr_t address);

uint64_t guard_objects(void); /* that were guarded so far */
uint64_t guard_bytes(void);   /* usable bytes of those that are in use */
uint64_t guard_missed(void);  /* that should have been guarded: no slot was free, or the system refused */

#endif
