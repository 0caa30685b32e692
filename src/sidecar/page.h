/* SPDX-License-Identifier: BSD-2-Clause */
/* The sidecar's side of the page that it shares with programs (report/sidecar_page.h). Only the thread that opened the
 * page uses these functions, since it holds the mutexes.
 */
#ifndef JESPAN_PAGE_H
#define JESPAN_PAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "report/sidecar_page.h"

/* Maps the page of that memfd, and starts the thread that waits for processes to ask. Returns a descriptor that becomes
 * readable when one asks, or a negative errno. */
int page_open(int memfd);

/* Makes the descriptor unreadable until the next process asks. */
void page_hush(void);

/* Enters a process. NULL: there is no page, or it is full. */
struct sidecar_slot *page_enter(pid_t pid);

/* Whether the process asks. Accepts NULL. */
bool page_is_asked(const struct sidecar_slot *slot);

/* Lets the process go on. Accept NULL. */
void page_has_read(struct sidecar_slot *slot);
void page_has_delivered(struct sidecar_slot *slot);

#endif
