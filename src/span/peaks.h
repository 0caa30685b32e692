/* SPDX-License-Identifier: BSD-2-Clause */
/* The most that each context had in use at once, alone and with all contexts below it, and who had memory at the peak of
 * the process.
 *
 * Nothing counts these while a thread allocates and frees. A *look* adds up the bytes in use of all contexts as they are
 * now, and raises the peaks. Threads look before memory goes away: src/malloc/peak_looks.h. So a peak is what a look saw,
 * and never more than that. Who reads a peak takes what is in use now if that is more.
 */
#ifndef JESPAN_PEAKS_H
#define JESPAN_PEAKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Usable bytes. Written under LOCK_TREE. */
struct context_peaks {
    _Atomic uint64_t own_bytes;     /* the most that the context had, without those below it */
    _Atomic uint64_t total_bytes;   /* with those below it. The root's is that of the process */
    _Atomic uint64_t at_peak_bytes; /* what it had, without those below it, when the process had most */
};

struct peaks {
    /* By id; NULL before the boot. A stack has those of its own memory, which is part of its context's. Periods have none. */
    _Atomic(struct context_peaks *) of;
    _Atomic uint32_t end;               /* of ids that were looked at */
    struct context_peaks retired; /* the highest peaks of recycled contexts; what they had together at the process's peak */
    _Atomic uint64_t changes;           /* how often any peak was changed, other than that of a recycled context */
    _Atomic uint64_t looks, inuse_bytes; /* looks so far; what the process had at the last one */
};
extern struct peaks all_peaks;

/* To be called once, after tree_boot(). Returns 0 or -ENOMEM. */
int peaks_boot(uint32_t max_contexts);

enum peaks_look {
    PEAKS_RAISED, /* some were */
    PEAKS_SAME,   /* none was */
    PEAKS_BUSY,     /* another thread has the tree */
    PEAKS_TOO_MANY, /* threads and contexts: it would take too long; or there is no memory */
};

/* Looks. Never waits. Any thread. */
enum peaks_look peaks_look(void);

/* Forgets all peaks. Takes LOCK_TREE. */
void peaks_reset(void);

/* A context goes: its peaks are added to those of recycled contexts. Under LOCK_TREE, while its life is even. */
void peaks_retire(uint32_t id);

#endif
