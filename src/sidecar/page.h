/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's side of the page that it shares with processes (report/sidecar_page.h). Only the thread that opened the
 * page uses these functions.
 */
#ifndef JESPAN_PAGE_H
#define JESPAN_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/dump_on.h"
#include "report/sidecar_page.h"

/* Maps the page of that memfd, says in it for which `reasons` (DUMP_BIT()) dumps are written, and starts
 * the thread that waits for processes to ring. Returns a descriptor that becomes readable when one rings, or a negative errno. */
int page_open(int memfd, enum sidecar_wants wants, uint32_t reasons);

bool page_is_open(void);

/* Whether the page is this file. */
bool page_has_inode(uint64_t inode);

/* Makes the descriptor unreadable until the next process rings. */
void page_hush(void);

/* Why processes have rung: one waits or has an event, or one was forked. The latter until page_forget_forks(). */
bool page_is_awaited(void);
bool page_has_forks(void);
void page_forget_forks(void);

/* Returns the next slot that a process has taken, after `slot` (NULL: the first). NULL: there is none. */
struct sidecar_slot *page_next(const struct sidecar_slot *slot);

/* The slot of the process. NULL: it has none. */
struct sidecar_slot *page_find(pid_t pid);

/* Whether the slot (NULL: none) is that of the process. */
bool page_is_of(const struct sidecar_slot *slot, pid_t pid);

/* Whether the process asks. */
bool page_is_asked(const struct sidecar_slot *slot, pid_t pid);

/* Shows the figures of the first `n` rules of `alert` to the process, if the slot is its own. */
void page_show_alerts(struct sidecar_slot *slot, pid_t pid, const struct alert_figures *figures, unsigned n);

/* Lets the process go on, if the slot is still its own. */
void page_tell(struct sidecar_slot *slot, pid_t pid, enum sidecar_state state);

/* Whether the process leaves its events to the sidecar. */
bool page_leaves_events(const struct sidecar_slot *slot, pid_t pid);

/* Returns the events that happened: DUMP_BIT() of each. They stay until the dump. */
uint32_t page_events(struct sidecar_slot *slot);

/* A dump for that reason begins or ends. Events that happen meanwhile ask for another one, but for DUMP_OOM: threads wait for
 * page_done(). */
void page_begin_dump(struct sidecar_slot *slot, pid_t pid, enum dump_reason reason);
void page_end_dump(struct sidecar_slot *slot, pid_t pid);

/* Counts a dump for an event, for the process to show. */
void page_count_dump(struct sidecar_slot *slot, pid_t pid, enum dump_reason reason);

/* A dump for DUMP_OOM was written, or failed. Later allocations that fail are no events until page_be_open(). */
void page_done(struct sidecar_slot *slot, pid_t pid);
void page_be_open(struct sidecar_slot *slot, pid_t pid);

/* Whether another `jespan run` has taken over the process. */
bool page_is_handed_over(pid_t pid);

/* A process that is in another PID namespace, or has a child there. 0: none was seen. */
pid_t page_left_out(void);

/* Notes one that the sidecar has found itself. 0: none. */
void page_note_left_out(pid_t pid);

/* Empties the slot of a process that has ended. */
void page_empty(struct sidecar_slot *slot, pid_t pid);

/* Stops the beats if no process waits any more. */
void page_rest(void);

/* Refuses all other processes, or takes that back. */
void page_close(bool closed);

#endif
