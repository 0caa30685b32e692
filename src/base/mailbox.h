/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests from other processes: `jespan ctl` (src/snapshot/mailbox_outside.c). The other process writes one into this
 * one's memory. A thread of the program finds it on a path that is slow anyway (src/malloc/mailbox.c), calls mallctl
 * (src/ctl/ctl_outside.c), and writes the answer. A request may wait for hours: until the program allocates. A signal
 * handler of this process can ask for one change: mailbox_ask_switch().
 *
 * Others cannot change a word here atomically, so each word has one side that writes it. `asked`, `left` and the request
 * are written by the other process, all else by the program. A slot has a request while `asked` is not `taken`, and the
 * answer to it is whole once `answered` is `asked`. The lowest number in `asked` is taken first. To take a request back,
 * the other process stores `taken` in `asked`, makes the request invalid, and then reads `taken` again: if it has not
 * changed, the request is never executed. If two processes write at once, the check sum shows it.
 */
#ifndef JESPAN_MAILBOX_H
#define JESPAN_MAILBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"

#define MAILBOX_SLOTS 8
#define MAILBOX_TEXT_BYTES 512
#define MAILBOX_ANSWER_BYTES 1024

enum mailbox_verb { MAILBOX_GET = 1, MAILBOX_SET, MAILBOX_CALL }; /* CALL: a name that only does something, such as a purge */
enum mailbox_kind { MAILBOX_NOTHING, MAILBOX_UNSIGNED, MAILBOX_SIGNED, MAILBOX_BOOL, MAILBOX_WORDS };

struct mailbox_request {
    uint64_t check;     /* mailbox_check() */
    uint64_t token;     /* a random number; the answer repeats it */
    uint32_t number;    /* the value of `asked` */
    uint32_t verb;      /* enum mailbox_verb */
    uint64_t value;     /* SET: the value as a number, if has_value */
    uint32_t has_value; /* GET: jemalloc's statistics are brought up to now before (its name `epoch`) */
    uint32_t life; /* not 0: the context that spans.<id>.NAME must be of, by its life (span/tree.h). Else ESTALE */
    char name[MAILBOX_TEXT_BYTES], words[MAILBOX_TEXT_BYTES]; /* for mallctl; the value as text. With their NULs */
};

struct mailbox_answer {
    uint64_t token;
    int32_t error; /* of mallctl: a positive errno; 0: it worked */
    uint32_t kind; /* enum mailbox_kind */
    uint64_t value;
    char words[MAILBOX_ANSWER_BYTES]; /* cut if it is longer */
};

struct mailbox_words {
    _Atomic uint32_t asked, taken, answered;
    _Atomic uint32_t left; /* the value of `asked` if the process that asked no longer waits for the answer */
};

/* The words lie together, so that a forked child touches one page of it. */
struct mailbox {
    struct mailbox_words words[MAILBOX_SLOTS];
    struct mailbox_request request[MAILBOX_SLOTS];
    struct mailbox_answer answer[MAILBOX_SLOTS];
};

extern struct mailbox mailbox;

/* Work for paths that are slow anyway; 0: none. The process that asks sets the bit SLOW_MAIL too: it writes the
 * word. Then it hides the size classes, so that threads which stay on the fast path leave it: heap/classes.h. */
#define SLOW_AGE 1u  /* with age_period_s, for good */
#define SLOW_MAIL 2u /* there may be a request, or a signal has asked for a switch */
#define SLOW_GUARD 4u /* with guard_sample, for good */
#define SLOW_START 8u /* jespan's threads have yet to start: report/late_start.h */
#define SLOW_STATE 16u /* with state_file, for good: base/state_file.h */
extern INTERNAL _Atomic uint32_t slow_work;

/* With SLOW_START, mailbox_look_or_start() calls this. */
struct thread;
extern void (*mailbox_start)(const struct thread *t);

/* Asks a thread of this process to switch stacks at its next allocation: off if they are on, and else to `mailbox_stacks`.
 * Async-signal-safe; leaves errno alone. Asked twice before that allocation, the thread does it once, as with signals that wait. */
extern const char *mailbox_stacks; /* set once, before the first call. A mode of spans.stacks */
void mailbox_ask_switch(void);

/* Shows the size classes, and answers the requests that there are. To be called without a lock, where the program could
 * call mallctl. Leaves errno alone. */
void mailbox_look(void);

/* The same if there may be a request, and the start of jespan's threads if they have yet to start. Not for free(): libc
 * frees memory of threads that have ended while it holds a lock that creating a thread needs. */
void mailbox_look_or_start(void);

/* Starts them on paths that are slow anyway, other than those of allocations. */
static inline void mailbox_start_if_due(void)
{
    if (__builtin_expect(load_relaxed(&slow_work) & SLOW_START, 0))
        mailbox_look_or_start();
}

/* The same, for an allocation that has found its size class hidden. If the thread holds bytes for it, the thread looks
 * at its next allocation. t may be NULL. */
void mailbox_look_for_hidden(struct thread *t);

/* Calls mallctl. The texts of the request end with a NUL. */
void mailbox_execute(const struct mailbox_request *request, struct mailbox_answer *answer);

/* In a forked child: the requests were for its parent. */
void mailbox_after_fork(void);

/* The hash of all that follows it. */
static inline uint64_t mailbox_check(const struct mailbox_request *request)
{
    return hash_bytes(HASH_START, (const char *)request + sizeof request->check, sizeof *request - sizeof request->check);
}

#endif
