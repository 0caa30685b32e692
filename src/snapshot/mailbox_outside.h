/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to another process: it is asked to call mallctl (base/mailbox.h). */
#ifndef JESPAN_MAILBOX_OUTSIDE_H
#define JESPAN_MAILBOX_OUTSIDE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/mailbox.h"

/* An open mailbox of another process. Requests go to the program that it runs now: if it executes another one, they
 * fail with ESRCH. */
struct mailbox_outside {
    int memory;    /* /proc/PID/mem */
    int directory; /* /proc/PID, locked: one command at a time */
    uint64_t at, slow_work_at;
};

/* Waits until no other command has the mailbox open, at most until that time on the monotonic clock. Returns 0 or a
 * negative errno: those of view_open(), and EBUSY for that time. */
int mailbox_open(struct mailbox_outside *m, pid_t pid, uint64_t until_ns);

/* Fills what belongs to the protocol, and waits for the answer. Returns 0 or a negative errno:
 *   ETIMEDOUT  no thread of the program took the request, which is withdrawn
 *   EBUSY      a thread of the program is at an earlier request, or has taken this one and is not finished
 *   EAGAIN     another process has overwritten the request, or the process was forked just now: to be tried again
 *   ESRCH      the process has ended, or executes another program
 *   EPERM, EIO the system does not permit it; it fails */
int mailbox_ask(struct mailbox_outside *m, struct mailbox_request *request, struct mailbox_answer *answer, uint64_t until_ns);

void mailbox_close(struct mailbox_outside *m);

#endif
