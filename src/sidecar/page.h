/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's side of the page that it shares with processes (report/sidecar_page.h). Only the thread that opened the
 * page uses these functions.
 */
#ifndef JESPAN_PAGE_H
#define JESPAN_PAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "report/sidecar_page.h"

/* Maps the page of that memfd, and starts the thread that waits for processes to ask. Returns a descriptor that becomes
 * readable when one asks, or a negative errno. */
int page_open(int memfd, enum sidecar_wants wants);

bool page_is_open(void);

/* Makes the descriptor unreadable until the next process asks. */
void page_hush(void);

/* Returns the next slot that a process has taken, after `slot` (NULL: the first). NULL: there is none. */
struct sidecar_slot *page_next(const struct sidecar_slot *slot);

/* The slot of the process. NULL: it has none. */
struct sidecar_slot *page_find(pid_t pid);

/* Whether the slot (NULL: none) is that of the process. */
bool page_is_of(const struct sidecar_slot *slot, pid_t pid);

/* Whether the process asks. */
bool page_is_asked(const struct sidecar_slot *slot, pid_t pid);

/* Lets the process go on, if the slot is still its own. */
void page_tell(struct sidecar_slot *slot, pid_t pid, enum sidecar_state state);

/* Empties the slot of a process that has ended. */
void page_empty(struct sidecar_slot *slot, pid_t pid);

/* Stops the beats if no process waits any more. */
void page_rest(void);

/* Refuses all other processes, or takes that back. */
void page_close(bool closed);

#endif
