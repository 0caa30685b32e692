/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the slow sides share: the header of an object, frees, and span arenas. */
#ifndef JESPAN_TRACK_SLOW_H
#define JESPAN_TRACK_SLOW_H

#include "malloc/track.h"
#include "policy/limits.h"

/* What a flush is at present. It is track_flush() where a flush has nothing to do but to count. */
typedef void flush_function(struct thread *t);
extern flush_function *_Atomic track_flush_chosen;

HOT_INLINE bool track_flush_is_plain(void)
{
    return likely(load_relaxed(&track_flush_chosen) == track_flush);
}

/* Ends the program, with the pointer's address on stderr. */
_Noreturn void track_die_not_allocated(const void *p);

/* Whether a small object starts at p, whose page has this entry. */
HOT_INLINE bool track_is_start(const void *p, uint64_t small_entry)
{
    return likely(page_entry_starts_at(small_entry, (uintptr_t)p)) || pagemap_find_start((uintptr_t)p);
}

/* Takes an object of a middle class from its magazine. If the context came below a limit after the caller looked, the limit must be
 * asked. So a big object is counted in the section in which the context was seen to have none. */
HOT_INLINE void *track_reuse_big(struct thread *t, size_t class, size_t requested)
{
    uint32_t section = limits_begin(t);
    void *p = unlikely(limits_of(t->tag)) ? NULL : track_reuse_of(t, class, true, requested);
    limits_end(t, section);
    return p;
}

/* The place of an object's tag. */
struct object_place {
    header_t *slot;     /* of a small object */
    page_entry_t *page; /* of a big object */
    uint32_t tag;       /* 0: not a live object */
    bool is_survivor;     /* TAG_SURVIVOR is set */
};

struct object_place track_find_header(void *p);
void track_set_tag(const struct object_place *place, uint32_t tag);

/* An object of a region gets another owner, so it must outlive the region. */
void track_hand_over(const struct object_place *place, uint16_t arena, uint32_t tag);

/* Lets an object outlive its region without another owner. Another thread may free the object meanwhile. False: it was
 * freed after its header was found. */
bool track_keep(const struct object_place *place, uint16_t arena);

/* Sets the header of a new object, for the context `owner`; 0: for the thread's. Returns 0, HEADERS_IN_ARENA in a page
 * of a span arena, or -ENOMEM. */
int track_set_header(struct thread *t, void *p, size_t usable, uint32_t owner);

/* The contents of an object's header. */
struct object_owner {
    uint32_t tag;
    bool in_arena; /* its page is a span arena's */
    size_t usable;
};

/* Reads and clears the header of an object that is about to be freed. Ends the program if p is not a live object. */
struct object_owner track_take_header(void *p);

/* Counts an object, which has a header, for its span arena. Arena 0: does nothing. */
void track_count_in_arena(struct thread *t, uint16_t arena, void *p, size_t usable);

/* Counts frees by threads that have no counters for the context. */
void track_count_frees_orphan(uint32_t context, uint64_t objects, uint64_t bytes);

/* Gives an object in a span arena's page back to jemalloc. */
void track_free_to_arena(struct thread *t, void *p, size_t usable, int flags);

/* Whether the object waits in the thread's free buffer. t may be NULL. */
bool track_is_waiting(const struct thread *t, const void *p);

HOT_INLINE void track_add_frees(struct counters *c, uint64_t objects, uint64_t bytes)
{
    own_add_release(&c->free_objects, objects);
    own_add_release(&c->free_bytes, bytes);
}

#endif
