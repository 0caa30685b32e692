/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: declarations for the files limit_*.c and limits.c. Other files include limits.h. */
#ifndef JESPAN_LIMIT_INTERNAL_H
#define JESPAN_LIMIT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/classes.h"
#include "heap/thread.h"
#include "policy/limits.h"

/* ---- Charges and stocks: limit_charge.c ---- */

/* Whether `limit` is `top` or below it. */
bool limits_is_within(uint32_t limit, uint32_t top);

/* Charges `bytes` to a limit and those above it, below `until` (0: all). Returns 0; or the limit that refuses, and then
 * nothing is charged. */
uint32_t limits_charge(uint32_t limit, uint32_t until, uint64_t bytes);
void limits_uncharge(uint32_t limit, uint32_t until, uint64_t bytes);

/* The most that a thread may keep in stock now; less when the limit is near. A thread takes at most LIMITS_STOCK_BYTES
 * at once; for large limits, one of LIMITS_STOCK_SHARE parts. */
#define LIMITS_STOCK_BYTES 65536u
#define LIMITS_STOCK_SHARE 4096u
uint32_t limits_share(uint32_t limit);

/* Gives back a thread's stocks: all, or those of `top` and of the limits below it. The thread is in no section, or is
 * the calling thread. */
void limits_empty_thread(struct thread *t);
void limits_empty_within(struct thread *t, uint32_t top);

/* Gives back the stocks of the limit and of all below it. No thread is in a section. */
void limits_empty_stocks(uint32_t top);

/* Moves stocks to the parent, as the limit is removed. No thread is in a section. */
void limits_hand_stocks_up(uint32_t limit, uint32_t parent);

/* ---- Stopping other threads: limit_sections.c ---- */

static inline bool limits_is_inside(const struct thread *t)
{
    return load_acquire(&t->limits_sequence) & 1;
}

/* No other thread is in a section from here to limits_go(). Under LOCK_LIMITS. */
void limits_stop(struct thread *self);
void limits_go(void);

/* Makes every thread see what this one wrote, and this one what others wrote before. */
void limits_show_all(void);

/* Uncharges all stocks of the limit and of those below it, and all frees in buffers. Threads that stay in a section for
 * long are left out. */
void limits_drain(struct thread *self, uint32_t top);

/* Takes the stocks of limits at and below `top` from all threads, and keeps other threads out of sections. `self`
 * (NULL: the caller has no block) is in no section and may begin one. No lock from LOCK_LIMITS on is held. */
void limits_begin_alone(struct thread *self, uint32_t top);
void limits_end_alone(void);

/* ---- Frees in buffers: limit_claims.c ---- */

/* Calls `each` with the limits of the frees in a thread's buffer that are neither counted nor claimed. Returns how many
 * frees the buffer holds. */
uint32_t limits_each_waiting(struct thread *t, void (*each)(void *to, uint32_t limit, uint32_t bytes), void *to);

/* Uncharges the frees in a thread's buffer ahead of time. The thread is in no section. */
void limits_claim(struct thread *t);

/* The bytes of the frees in a thread's buffer that are claimed for a context and not counted. */
uint64_t limits_claimed_bytes(const struct thread *t, uint32_t context);

/* Waits for flushes that began before frees were uncharged, but not for ever, since something may hold up their
 * threads. */
void limits_await_buffers(void);

/* ---- Bytes in use before the limit: limit_claims.c ---- */

/* The bytes that all threads together have for a context's limit: bytes in use less claimed ones, bytes held, and bytes
 * that may be under way. No thread is in a section. */
uint64_t limits_charge_of(uint32_t context);

/* The context, which had no limit, is going to have one. Threads that are inside may be about to count an allocation
 * that was not admitted: LIMITS_UNSEEN_BYTES are charged for each of them, until the thread settles. Returns 0 or
 * -ENOMEM. */
#define LIMITS_UNSEEN_BYTES HEADER_PAGE_BYTES
int limits_watch_inside(uint32_t context);
uint64_t limits_unseen(uint32_t top); /* bytes that are charged for such threads */

/* As limits_settle(), but under LOCK_LIMITS, and for any thread. */
void limits_settle_locked(struct thread *t);

/* Sets the limit of a context, 0 for none, also for bytes that are held for it. No thread is in a section. */
void limits_set_member(uint32_t context, uint32_t limit);

/* ---- The tree of limits: limit_tree.c. Under LOCK_LIMITS ---- */

extern _Atomic uint32_t limits_shape; /* odd while the tree of limits changes */
void limits_begin_shape(void);
void limits_end_shape(void);

void limits_add_child(uint32_t parent, uint32_t limit);
void limits_remove_child(uint32_t limit);

/* Children of `from` below `context` become children of `to`. Returns the bytes that are charged to them. */
uint64_t limits_hand_over_children(uint32_t from, uint32_t to, uint32_t context);

/* Calls `act` for each member of `limit` (0: for each context without a limit) in `context` or below, until it returns a value
 * other than 0. Returns that value. */
int limits_each_member(uint32_t limit, uint32_t context, int (*act)(void *to, uint32_t member), void *to);

/* ---- The configuration: limit_conf.c ---- */

/* Finds the bounds that the configuration has for a context, by its name and labels. False: none. */
bool limits_configured(const struct context *c, struct limit_bounds *bounds);
void limits_conf_boot(void);

#endif
