/* SPDX-License-Identifier: BSD-2-Clause */
/* A page that processes share with their sidecar. It tells the sidecar which processes exist, and lets it read each
 * process once more at its end.
 *
 * The page is a memfd of the sidecar, which `sidecar` in the configuration names. A process takes a slot when its
 * program starts, without a system call, or when it is forked. The sidecar looks at the slots once a second, and when a
 * process rings: it waits at its end, has an event, or is forked. The sidecar empties the slots of processes that have ended.
 *
 * Processes of several users may write to the page, as a server and its workers do, and any of them may be hostile. So
 * it has numbers only: no address, and no type of libc that contains addresses, such as a mutex. The worst effect of a
 * wrong number is that a process is not reported for, has dumps for events that it did not see, or waits at its exit or after
 * an allocation that failed for as long as it would for a sidecar that is stopped.
 */
#ifndef JESPAN_SIDECAR_PAGE_H
#define JESPAN_SIDECAR_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "snapshot/alert_figures.h"

#define SIDECAR_PAGE_NAME "jespan-sidecar" /* as /proc/PID/maps shows it, after "memfd:" */
#define SIDECAR_PAGE_LAYOUT 0x6a730009u /* changes with the layout */
#define SIDECAR_PAGE_BYTES 786432 /* the kernel gives memory for what is used of it */
#define SIDECAR_SLOTS 1360
#define SIDECAR_BEAT_NS UINT64_C(25000000) /* how often the sidecar beats while a process waits for it */

#define SIDECAR_TAKEN UINT32_MAX

enum sidecar_state {
    SIDECAR_RUNS,       /* the process runs */
    SIDECAR_ASKS_FIRST, /* it waits for a dump, and asks again later */
    SIDECAR_ASKS,       /* it is about to end, and waits */
    SIDECAR_READ,       /* the sidecar has read it */
    SIDECAR_DELIVERED,  /* and has delivered everything */
};

struct sidecar_slot {
    _Atomic uint32_t pid;    /* in the sidecar's PID namespace. 0: free. SIDECAR_TAKEN: it is being filled */
    _Atomic uint32_t state;  /* a futex: enum sidecar_state */
    _Atomic uint32_t forked; /* the process has executed no program since it was forked */
    _Atomic uint32_t events; /* a futex: DUMP_BIT() of events that the sidecar has yet to handle, and base/dump_on.h's bits */
    _Atomic uint64_t began_ns; /* when its program started, on the monotonic clock */
};

/* Which processes wait at their end. */
enum sidecar_wants { SIDECAR_WANTS_NONE, SIDECAR_WANTS_DUMPED, SIDECAR_WANTS_ALL }; /* DUMPED: those that dump at exit */

struct sidecar_page {
    _Atomic uint32_t layout; /* SIDECAR_PAGE_LAYOUT once the rest is valid */
    _Atomic uint32_t rings;  /* a futex: how often a process has rung */
    _Atomic uint32_t beats;  /* grows while a process waits, unless the sidecar is stopped */
    _Atomic uint32_t closed; /* the sidecar ends, and serves no other process */
    _Atomic uint32_t wants;  /* enum sidecar_wants */
    _Atomic uint32_t reasons; /* DUMP_BIT() of those for which the sidecar writes dumps */
    _Atomic uint32_t tracer; /* the process that Yama must let read. 0: it need not be told */
    _Atomic uint32_t alive;  /* a robust futex: has FUTEX_OWNER_DIED when the sidecar has died */
    _Atomic uint32_t left_out; /* the last process that is in another PID namespace, or has a child there. 0: none */
    _Atomic uint32_t handed_over; /* the last process that another sidecar reports for, by another `jespan run`. 0: none */
    _Atomic uint32_t has_forked; /* a forked child has taken a slot since the sidecar has looked */
    struct sidecar_slot slots[SIDECAR_SLOTS];
    /* Of the processes with these slots. The sidecar writes them: */
    struct alert_figures alerts[SIDECAR_SLOTS][ALERTS_MOST];
    _Atomic uint64_t dumps[SIDECAR_SLOTS][DUMP_N_EVENTS]; /* for events */
};

/* ---- For processes: sidecar_page.c ---- */

/* Maps the page that `sidecar` in a configuration names. NULL: there is none. */
struct sidecar_page *sidecar_page_map(const char *path);

/* The number of this process in /proc, through which the page was reached: slots have it. In another PID namespace it is not
 * that of getpid(). 0: there is no /proc. */
uint32_t sidecar_page_number(void);

/* The slot of a process. NULL: it has none. */
struct sidecar_slot *sidecar_page_find(struct sidecar_page *page, uint32_t pid);

/* Gives back the slot of a process, if it has one: the sidecar then does not report for it. */
void sidecar_page_leave(struct sidecar_page *page, uint32_t pid);

/* The same, because another sidecar or a thread of the process reports from now on. */
void sidecar_page_hand_over(struct sidecar_page *page, uint32_t pid);

_Static_assert(sizeof(struct sidecar_page) <= SIDECAR_PAGE_BYTES, "it fits");

#endif
