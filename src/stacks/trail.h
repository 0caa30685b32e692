/* SPDX-License-Identifier: BSD-2-Clause */
/* The trail: the frames of one of a thread's last walks, and the words that led it there.
 *
 * Most stacks have all but their innermost frames in common with the stack before. A walk that comes to a frame of the trail, with
 * the same words above it, would find the rest of the trail. So it stops there. To compare these words takes less than half of the time
 * of walking, in which each frame waits for the one before. */
#ifndef JESPAN_TRAIL_H
#define JESPAN_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/stack_lines.h"

#define TRAIL_MOST 256u /* frames */

/* A frame as a walk found it, and how the walk left it. */
struct trail_frame {
    uintptr_t at, pc;  /* where the return address was, and the address */
    uintptr_t bp_at;   /* where the frame had saved the caller's frame pointer; 0: it had not */
    uintptr_t bp_used; /* the frame pointer by which the walk went on; 0: by the stack pointer */
};

/* Frames are counted from the outermost one on, which is 1. The words of all of them are in `words`, in this order. A walk ends after so
 * many frames (`stacks_depth`), so the outermost one need not be the end of the stack. */
struct trail {
    uint32_t n;
    bool is_whole;         /* the outermost frame is the end of the stack */
    uint32_t saver;        /* the outermost frame that has saved its caller's frame pointer; 0: none */
    uintptr_t outer_bp_at; /* where that is */
    uint32_t rest;         /* so many walks do without the trail */
    uint32_t useless;      /* how many it was the last time; 0: the trail has been of use since */
    struct lines_look look; /* for what the present walk's hash is wanted */
    uintptr_t at[TRAIL_MOST + 1];   /* in falling order; at[0] is above all */
    uintptr_t bp[TRAIL_MOST + 1];   /* the frame pointer that the frames above need, if the frame has not saved it; 0: none */
    uint64_t hash[TRAIL_MOST + 1];  /* of the frame and those above it */
    uint32_t above[TRAIL_MOST + 1]; /* so many words led the walk from the frame to its end. The next one is the return address itself */
    uintptr_t word_at[2 * TRAIL_MOST], words[2 * TRAIL_MOST];
    struct trail_frame walked[TRAIL_MOST]; /* by the present walk, the innermost first */
};

/* Powers of an odd number. The hash of a stack is the sum of each return address times the power of its place, the innermost first. So that
 * of its outer part has to be multiplied once. unwind_boot() sets them. */
extern uint64_t trail_powers[TRAIL_MOST + 1];

static inline void trail_clear(struct trail *t)
{
    t->n = 0;
    t->at[0] = UINTPTR_MAX;
}

/* The present walk found `n` frames, and then frame `joined` of the trail; 0: it did not come to the trail. */
void trail_add(struct trail *t, uint32_t n, uint32_t joined);

/* It found `n` frames below those of the trail that it joined, and then so many above all of the trail. */
void trail_went_on(struct trail *t, uint32_t n, uint32_t above);

/* On the stack. It is misaligned only where the stack has garbage. */
struct trail_there {
    uintptr_t value;
} __attribute__((packed, may_alias));

__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uintptr_t trail_there(uintptr_t at)
{
    return ((const volatile struct trail_there *)at)->value;
}

__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uintptr_t trail_differs(const struct trail *t, uint32_t i)
{
    return trail_there(t->word_at[i]) ^ t->words[i];
}

/* The walk has come to where frame `j` of the trail was, and may go `room` frames on. Returns j if the words that lead to these are the
 * same again, else the innermost frame for which that may be so. The words from *known on, up to those of that frame, are known to be.
 * The loads do not wait for each other. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uint32_t trail_compare(const struct trail *t, uint32_t j, uint32_t room, uint32_t *known)
{
    uint32_t i = j > room + 1 ? t->above[j - room] : 0, n = t->above[j] < *known ? t->above[j] : *known;
    *known = i;
    while (i + 4 <= n && !(trail_differs(t, i) | trail_differs(t, i + 1) | trail_differs(t, i + 2) | trail_differs(t, i + 3)))
        i += 4;
    while (i < n && !trail_differs(t, i))
        i++;
    if (likely(i >= n))
        return j;
    while (t->above[j] > i)
        j--;
    return j;
}

/* The hash of `n` frames, of which frame `j` is the innermost. */
HOT_INLINE uint64_t trail_hash(const struct trail *t, uint32_t j, uint32_t n)
{
    return t->hash[j] - trail_powers[n] * t->hash[j - n];
}

/* Where a walk has come to: the next frame as in a struct trail_frame, how many frames follow it at most, and the hash of it and all
 * before it. */
struct trail_place {
    uintptr_t at, pc, bp_at;
    uint32_t room;
    uint64_t hash, power; /* the power of the frame that follows */
};

/* How many frames of the trail a walk takes that joins it at frame `j`, without that. */
HOT_INLINE uint32_t trail_taken(uint32_t j, uint32_t room)
{
    return j - 1 < room ? j - 1 : room;
}

/* Whether the walk joins the trail at frame *j, which is moved to the first one at or above the walk's place. If so, *hash is that of the
 * walk and what it takes of the trail. Where that leads is fetched while the words are compared. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool trail_joins(const struct trail *t, uint32_t *j, uint32_t *known, struct trail_place place, uint64_t *hash)
{
    while (t->at[*j] < place.at)
        --*j;
    if (t->at[*j] != place.at || t->words[t->above[*j]] != place.pc || (t->bp[*j] && trail_there(place.bp_at) != t->bp[*j]))
        return false;
    uint64_t joined = place.hash + place.power * trail_hash(t, *j - 1, trail_taken(*j, place.room));
    lines_prefetch(&t->look, joined);
    uint32_t found = trail_compare(t, *j, place.room, known);
    bool joins = likely(found == *j);
    *j = found;
    if (joins)
        *hash = joined;
    return joins;
}

#endif
