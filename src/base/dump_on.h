/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that ask for a dump (dump_on). The thread that sees an event reports it here. The watcher (dump_watch.h)
 * handles it.
 *
 * A report sets a bit and wakes a thread. It allocates nothing, takes no lock, and leaves errno alone. It may come from
 * anywhere, also from a signal handler and from malloc itself.
 */
#ifndef JESPAN_DUMP_ON_H
#define JESPAN_DUMP_ON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sidecar writes dumps of processes that were killed. Dumps for alerts do not depend on dump_on. */
enum dump_reason { DUMP_OOM, DUMP_LIMIT, DUMP_PEAK, DUMP_SIGNAL, DUMP_N_EVENTS, DUMP_KILLED = DUMP_N_EVENTS, DUMP_ALERT, DUMP_N_REASONS };

extern const char *const dump_reason_names[DUMP_N_REASONS]; /* parts of file names. The names of events are also the words of dump_on */

/* Reports an event. Does nothing where dump_on does not name it. */
void dump_on_event(enum dump_reason reason);

/* Reports that an allocation failed for lack of memory. Waits up to a second for the dump, since many programs end
 * next. Does not wait where the thread `is_ours`, since the dump may wait for it. A size that no process can have is a
 * mistake of the program and no event. */
void dump_on_failure(size_t bytes, bool is_ours);

/* ---- For the watcher ---- */

/* The watcher may be in another process: the sidecar. Then the events are bits of a word that both share. */
struct dump_on_outside {
    _Atomic uint32_t *events; /* a futex */
    _Atomic uint32_t *rings;  /* a futex: the watcher is woken by it */
    _Atomic uint32_t *alive;  /* a robust futex: has FUTEX_OWNER_DIED when the watcher has died */
    _Atomic uint32_t *owner;  /* whose words these are. The watcher may give them to another process, if it cannot read this one */
    uint32_t pid;             /* of this process */
};
#define DUMP_ON_ACCEPTS (1u << 30) /* the process leaves its events to the watcher */
#define DUMP_ON_QUIET (1u << 29)   /* allocations that fail are no events now */
#define DUMP_ON_BUSY (1u << 28)    /* the watcher writes a dump now */

/* Leaves events to such a watcher, until dump_on_accept() is called. `reasons` as there. The words must stay mapped. */
void dump_on_leave_to(struct dump_on_outside watcher, uint32_t reasons);

/* Whether such a watcher has yet to handle an event. */
bool dump_on_has_left(void);

#define DUMP_BIT(reason) (1u << (reason))

/* Sets the reasons that are accepted from now on. 0: none, as in a forked child. */
void dump_on_accept(uint32_t reasons);

/* The same, where some reasons are accepted already: their events are kept. */
void dump_on_accept_more(uint32_t reasons);

/* Waits for an event or dump_on_wake(), until a time on the monotonic clock at most. Returns the bits of the events
 * that happened, and clears them. */
uint32_t dump_on_wait(uint64_t until_ns);
void dump_on_wake(void);

/* A dump for that reason was written, or failed. It shows the events that happened meanwhile, so they are cleared.
 * Allocations that fail before `quiet_until_ns` are no events. */
void dump_on_done(enum dump_reason reason, uint64_t quiet_until_ns);

#endif
