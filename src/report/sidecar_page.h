/* SPDX-License-Identifier: BSD-2-Clause */
/* A page that a program shares with its sidecar, so that the sidecar reads the program once more at its end.
 *
 * The page is a memfd of the sidecar, which `sidecar` in the configuration names. The sidecar enters the processes that
 * it reports for. It holds both mutexes of an entry, and unlocks them when it has read the process, and when it has
 * delivered everything. The mutexes are robust: when the sidecar is killed, the process stops waiting.
 */
#ifndef JESPAN_SIDECAR_PAGE_H
#define JESPAN_SIDECAR_PAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define SIDECAR_PAGE_LAYOUT 0x6a730002u /* changes with the layout */
#define SIDECAR_PAGE_BYTES 4096
#define SIDECAR_SLOTS 32
#define SIDECAR_BEAT_NS UINT64_C(25000000) /* how often the sidecar beats while a process waits for it */

struct sidecar_slot {
    _Atomic uint32_t pid;   /* 0: free */
    _Atomic uint32_t asked; /* the process is about to end */
    pthread_mutex_t reading, delivering;
};

struct sidecar_page {
    _Atomic uint32_t layout; /* SIDECAR_PAGE_LAYOUT once the rest is valid */
    _Atomic uint32_t rings;  /* a futex: how often a process has asked */
    _Atomic uint32_t beats;  /* grows while a process waits, unless the sidecar is stopped */
    struct sidecar_slot slots[SIDECAR_SLOTS];
};

_Static_assert(sizeof(struct sidecar_page) <= SIDECAR_PAGE_BYTES, "it is one page");

#endif
