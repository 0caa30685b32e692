/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that `jespan ctl` asks, and what its verbs share. */
#ifndef JESPAN_CMD_CTL_TARGET_H
#define JESPAN_CMD_CTL_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "snapshot/mailbox_outside.h"

enum { STATUS_REFUSED = 1, STATUS_NO_ANSWER = 3 };

struct ctl_target {
    const char *word; /* the process, as the user wrote it */
    pid_t pid;
    bool is_certain; /* --wait: a request that is not taken in that time is taken back */
    uint64_t wait_ns;
    struct mailbox_outside box;
};

/* Says why a program answered a request with `error`, or returns NULL if only errno's text says it. */
const char *ctl_reason(const struct mailbox_request *request, int error);

/* Prints words that come from another process: control characters become '?'. */
void ctl_print_words(const char *words);

/* Verbs take the `n` words after them. They return the exit status, after a message if it is not 0. */

/* Prints the requests that wait, and the results of those that have waited, in the order in which they were asked. */
int ctl_waiting(struct ctl_target *t, char **words, int n);

/* Takes waiting requests back: all, or those of the name words[0]. */
int ctl_withdraw(struct ctl_target *t, char **words, int n);

#endif
