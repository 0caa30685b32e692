/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether stacks are taken, how many were lost, and the numbers of stacks. */
#ifndef JESPAN_STACKS_H
#define JESPAN_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

/* ---- The tree of return addresses ---- */

/* A node is a frame with all frames outside it, so its number names a stack.
 *
 * Nodes are made under LOCK_TREE and never change or go, so they are read without a lock, also by another process. */

struct stack_frame {
    uint64_t return_address; /* the instruction after the call; for an interrupted instruction, its address + 1 */
    uint32_t parent;         /* the frame outside it; 0: none */
    uint32_t next;           /* with the same hash */
};

extern INTERNAL struct stack_frame *stack_frames; /* by number; 0 is none */
extern _Atomic uint32_t stack_frames_end;

/* Chooses the addresses of the table. Returns 0 or -ENOMEM. To be called under LOCK_TREE. */
int frames_boot(uint32_t max);

/* The number of a stack, whose addresses are given from the innermost one on. `cut` says how much of it was cut,
 * 0 for nothing: the more, the more of the numbers it may take (stacks_bound()). Where `is_short`, and where half of the numbers are
 * taken, a frame calls at most FRAMES_CALLED others: the stack then ends below it with CODES_CUT. Returns 0 where all numbers are taken,
 * and where there is no memory. Under LOCK_TREE. */
#define FRAMES_CALLED 256u
uint32_t frames_intern(const uintptr_t *return_addresses, uint32_t n, unsigned cut, bool is_short);

#define FRAMES_PER_STACK 16u /* there are numbers for `max_stacks` frames, and for pairs of a context and a stack a sixteenth of it */

/* Whether CODES_CUT stands for the innermost frames of the stack. */
bool frames_are_cut(uint32_t number);

/* How many of `most` numbers may be taken: whole stacks leave an eighth, those that were cut once a sixteenth, and so on. */
static inline uint32_t stacks_bound(uint32_t most, unsigned cut)
{
    return most - (most / 8 >> cut);
}

/* ---- Modes and figures ---- */

enum stacks_mode { STACKS_OFF, STACKS_SAMPLED, STACKS_ALL };
static inline const char *stacks_mode_name(uint64_t mode)
{
    return mode == STACKS_ALL ? "all" : mode == STACKS_SAMPLED ? "sampled" : "off";
}

/* Reads MODE or MODE@NAMES. Returns the mode and stores where the names begin, or NULL. Returns -1 where the text is
 * something else. The command and modules call it too, so it is inline. */
static inline int stacks_mode_of(const char *text, const char **names)
{
    size_t n = strcspn(text, "@");
    *names = text[n] ? text + n + 1 : NULL;
    for (int i = 0; i <= STACKS_ALL; i++)
        if (strlen(stacks_mode_name((uint64_t)i)) == n && !strncmp(text, stacks_mode_name((uint64_t)i), n))
            return *names && (!**names || i == STACKS_OFF) ? -1 : i;
    return -1;
}

extern INTERNAL _Atomic uint32_t stacks_mode; /* enum stacks_mode */
extern INTERNAL _Atomic uint64_t stacks_min_bytes; /* smaller allocations have no stack */
#define STACK_MODE_BYTES 512 /* of MODE@NAMES, with the NUL */

struct stacks_stats {
    _Atomic uint64_t overflow;    /* allocations that were credited without their stack: no number or no memory was left */
    _Atomic uint64_t missed;      /* credited without their stack: a signal handler interrupted a walk, or a lock was held for a second */
    _Atomic uint64_t ended_early; /* new stacks that end before the outermost frame */
    _Atomic uint64_t cut;         /* how often a stack was looked for and cut, since few numbers were left */
    _Atomic uint64_t sample_bytes; /* with STACKS_SAMPLED: the mean between two samples */
};
extern struct stacks_stats stacks_stats;

/* A flag beside the number of a stack in struct context: the stack has samples only. An exact stack of the same frames
 * is another context. */
#define STACK_SAMPLED (UINT32_C(1) << 31)

static inline void stacks_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Makes the tables that all modes but STACKS_OFF need. Returns 0 or -ENOMEM. Under LOCK_TREE. */
int stacks_boot(void);

#endif
