/* SPDX-License-Identifier: BSD-2-Clause */
/* When jespan's threads start.
 *
 * A bit of slow_work makes threads look on their slow paths. When main() begins, the size classes are hidden, so that the
 * next allocation takes a slow path, whatever its size. */
#include "report/late_start.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/forked.h"
#include "base/mailbox.h"
#include "heap/classes.h"
#include "heap/thread.h"
#include "span/tree.h"

#define AT_LATEST_NS UINT64_C(10000000000) /* a program may have no main(): libc has not started it */

#pragma weak main_begin_is_awaited /* a static program has no main_begin.c */

static void (*start_threads)(void);
static uint64_t awaited_ns;
static WRITTEN_AT_FORK pid_t owner; /* a child of vfork() or clone() may run in this memory */
static _Atomic bool main_has_begun;

static bool take(void)
{
    return atomic_fetch_and(&slow_work, ~SLOW_START) & SLOW_START;
}

static bool has_begun(void)
{
    return load_acquire(&main_has_begun) || clock_ns(CLOCK_MONOTONIC) - awaited_ns >= AT_LATEST_NS;
}

/* jespan's threads do not start others: they may hold a lock that starting one needs. */
static void look(const struct thread *t)
{
    bool is_ours = t->base == CONTEXT_ID_SELF || t->tag == CONTEXT_ID_SELF;
    if (!is_ours && has_begun() && getpid() == owner && take())
        start_threads();
}

static void hide_until_start(void)
{
    store_release(&main_has_begun, true);
    if (load_relaxed(&slow_work) & SLOW_START)
        classes_hide();
}

void late_start_main_begins(void)
{
    hide_until_start();
}

/* The constructor of a static program's last object is this one. Objects of the program come before libraries. */
static bool is_last_constructor(void)
{
    return INTERPOSES && !main_begin_is_awaited;
}

void late_start_await(void (*start)(void))
{
    bool is_awaited = main_begin_is_awaited && main_begin_is_awaited();
    if (!is_last_constructor() && !is_awaited) {
        start();
        return;
    }
    start_threads = start;
    owner = getpid();
    awaited_ns = clock_ns(CLOCK_MONOTONIC);
    mailbox_start = look;
    atomic_fetch_or(&slow_work, SLOW_START);
    if (!is_awaited)
        hide_until_start();
}

void late_start_now(void)
{
    if (load_relaxed(&slow_work) & SLOW_START && getpid() == owner && take())
        start_threads();
}

COLD bool late_start_after_fork(bool go_on)
{
    bool is_to_come = load_relaxed(&slow_work) & SLOW_START;
    if (is_to_come && go_on)
        owner = getpid();
    else if (is_to_come)
        take();
    return is_to_come;
}
