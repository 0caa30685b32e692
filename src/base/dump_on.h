/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that ask for a dump (dump_on): whoever sees one says so here, and the watcher (dump_watch.h) takes it up.
 *
 * Saying so sets a bit and wakes a thread: it allocates nothing, takes no lock, and leaves errno alone. From anywhere, a
 * signal handler and malloc itself included.
 */
#ifndef JESPAN_DUMP_ON_H
#define JESPAN_DUMP_ON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dump_reason { DUMP_OOM, DUMP_LIMIT, DUMP_PEAK, DUMP_SIGNAL, DUMP_N_REASONS };

extern const char *const dump_reason_names[DUMP_N_REASONS]; /* as in dump_on and in names of files */

/* One of these happened. Nothing where dump_on does not name it. */
void dump_on_event(enum dump_reason reason);

/* An allocation of so many bytes failed for want of memory. Waits for the dump, a second at most, since many programs end
 * next; not where `is_ours`, as the dump may wait for this thread. A size that no process could have is a mistake and no
 * event. */
void dump_on_failure(size_t bytes, bool is_ours);

/* ---- For the watcher ---- */

#define DUMP_BIT(reason) (1u << (reason))

/* Which are taken up from here on; 0: none, as in a forked child. */
void dump_on_accept(uint32_t reasons);

/* Waits until a time on the monotonic clock, or less: until there is an event, or a dump_on_wake(). Returns the bits of
 * what happened, and forgets them. */
uint32_t dump_on_wait(uint64_t until_ns);
void dump_on_wake(void);

/* A dump for that reason is done, or was tried: what happened meanwhile it shows already. Failures that come before
 * `quiet_until_ns` are no events. */
void dump_on_done(enum dump_reason reason, uint64_t quiet_until_ns);

#endif
