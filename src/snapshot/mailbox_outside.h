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
    uint64_t at, slow_work_at, classes_at;
};

/* Waits until no other command has the mailbox open, at most until that time on the monotonic clock. Returns 0 or a
 * negative errno: those of view_open(), and EBUSY for that time. */
int mailbox_open(struct mailbox_outside *m, pid_t pid, uint64_t until_ns);

/* Fills what belongs to the protocol, and waits for the answer. A request of the same verb and name that still waits is
 * taken back first. If no thread takes the request until `until_ns`, it is left in the mailbox, or taken back. Returns 0
 * or a negative errno:
 *   EINPROGRESS it is left
 *   ETIMEDOUT   it is taken back, and was never executed
 *   EBUSY       a thread of the program has taken it and is not finished, or is at an earlier request and has not taken
 *               this one, which is taken back
 *   ENOSPC      MAILBOX_SLOTS other requests wait
 *   EAGAIN      another process has overwritten the request, or the process was forked just now: to be tried again
 *   ESRCH       the process has ended, or executes another program
 *   EPERM, EIO  the system does not permit it; it fails */
enum mailbox_late { MAILBOX_TAKE_BACK, MAILBOX_LEAVE };
int mailbox_ask(struct mailbox_outside *m, struct mailbox_request *request, struct mailbox_answer *answer, uint64_t until_ns,
                enum mailbox_late late);

/* The contents of a slot. All texts end with a NUL, also if those in the process do not. */
enum mailbox_state {
    MAILBOX_EMPTY,
    MAILBOX_WAITS,
    MAILBOX_RUNS, /* a thread of the program is at it */
    MAILBOX_DONE, /* its answer is there, and the command that asked had left */
};
struct mailbox_entry {
    enum mailbox_state state;
    uint32_t number; /* requests are taken in the order of their numbers, which may wrap around */
    struct mailbox_request request;
    struct mailbox_answer answer;
};
int mailbox_read(const struct mailbox_outside *m, unsigned slot, struct mailbox_entry *entry);

/* Takes the waiting request of a slot back. Returns 0, -EBUSY if a thread took it before, or another negative errno. */
int mailbox_take_back(const struct mailbox_outside *m, unsigned slot);

void mailbox_close(struct mailbox_outside *m);

#endif
