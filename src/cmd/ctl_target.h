/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that `jespan ctl` asks, and what its verbs share. */
#ifndef JESPAN_CMD_CTL_TARGET_H
#define JESPAN_CMD_CTL_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "processes/outside.h"
#include "snapshot/mailbox_outside.h"

enum { STATUS_REFUSED = 1, STATUS_NO_ANSWER = 3 };

struct ctl_target {
    const char *word; /* the process, as the user wrote it */
    pid_t pid;
    bool is_certain; /* --wait: a request that is not taken in that time is taken back */
    bool json;
    uint64_t wait_ns;
    bool is_reached, is_read, has_asked;
    struct mailbox_outside box; /* if is_reached */
    struct outside outside;     /* if is_read */
};

/* Opens the mailbox, or reads the process from outside, once. Returns 0, or the exit status after a message. */
int ctl_reach(struct ctl_target *t);
int ctl_read(struct ctl_target *t);

/* Asks the program. Returns the exit status, after a message if it is not 0 or the request is left. */
int ctl_ask(struct ctl_target *t, struct mailbox_request *request, struct mailbox_answer *answer);

/* Makes a request. Returns 0, or STATUS_USAGE after a message: the name is too long. */
int ctl_begin(struct mailbox_request *request, enum mailbox_verb verb, const char *name);

/* ---- ctl_limit.c ---- */

/* Whether a name stands for a limit by its path: "limit:request > cache", "limit_soft:cache{tenant=blue}". */
bool ctl_is_limit(const char *name);

/* Makes the request to set the limit of that path, of the context that it names now. Returns 0, or the exit status after
 * a message. */
int ctl_begin_limit(struct ctl_target *t, struct mailbox_request *request, const char *name);

/* Makes the name "spans.<id>.FIGURE" of "FIGURE:PATH", such as "total.peak_bytes:request > cache". `name` has a colon.
 * Returns 0, or the exit status after a message. */
#define CTL_NAME_BYTES 96
int ctl_name_by_path(struct ctl_target *t, const char *name, char real[CTL_NAME_BYTES]);

/* ---- Verbs ---- */

/* Says why a program answered a request with `error`, or returns NULL if only errno's text says it. */
const char *ctl_reason(const struct mailbox_request *request, int error);

/* Prints words that come from another process: control characters become '?'. */
void ctl_print_words(const char *words);

/* Verbs take the `n` words after them. They return the exit status, after a message if it is not 0. */

/* Prints values of names, or of all names that fit the pattern words[0] and can be read from outside. */
int ctl_get(struct ctl_target *t, char **words, int n);
int ctl_list(struct ctl_target *t, char **words, int n);

/* Writes a dump, made from outside, to words[0] or heap.PID.pb.gz. */
int ctl_dump(struct ctl_target *t, char **words, int n);

/* Prints the requests that wait, and the results of those that have waited, in the order in which they were asked. */
int ctl_waiting(struct ctl_target *t, char **words, int n);

/* Takes waiting requests back: all, or those of the name words[0]. */
int ctl_withdraw(struct ctl_target *t, char **words, int n);

#endif
