/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the sidecar that this process exists, and that it is about to end. */
#include "report/goodbye.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/dump_on.h"
#include "base/forked.h"
#include "conf/conf.h"
#include "report/dump.h"
#include "report/sidecar_page.h"
#include "snapshot/snapshot.h"

#define NS_PER_MS 1000000u
#define READ_WITHIN_NS UINT64_C(5000000000)
#define MISSED_BEATS 20 /* in a row, from a sidecar that is stopped or gets no CPU time */

static struct sidecar_page *page; /* NULL: there is none */
static WRITTEN_AT_FORK struct sidecar_slot *own; /* NULL: the sidecar does not report for this process */

/* ---- The page ---- */

/* Slots have numbers of the sidecar's PID namespace. A process in another namespace would take the slot of another process, or be
 * taken for it. */
static bool is_outside_namespace(void)
{
    uint32_t number = sidecar_page_number();
    if (number != (uint32_t)getpid())
        store_relaxed(&page->left_out, number);
    return number != (uint32_t)getpid();
}

/* The first process of a fork in another PID namespace. Its children inherit that they have no slot. */
static bool is_forked_into_namespace(void)
{
    return getppid() == 0;
}

static void ring(void)
{
    atomic_fetch_add(&page->rings, 1);
    syscall(SYS_futex, &page->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static struct sidecar_slot *take_free_slot(uint32_t pid)
{
    for (uint32_t i = 0; i < SIDECAR_SLOTS; i++) {
        struct sidecar_slot *slot = &page->slots[(pid + i) % SIDECAR_SLOTS];
        uint32_t none = 0;
        if (!load_relaxed(&slot->pid) && atomic_compare_exchange_strong(&slot->pid, &none, SIDECAR_TAKEN))
            return slot;
    }
    return NULL;
}

/* The sidecar sets `closed` and then looks for slots that are taken. So one of the two sees the other. */
static struct sidecar_slot *take_slot(bool forked)
{
    uint32_t pid = (uint32_t)getpid();
    struct sidecar_slot *slot = forked ? NULL : sidecar_page_find(page, pid); /* a program that executes another one keeps it */
    if (!slot)
        slot = take_free_slot(pid);
    if (!slot)
        return NULL;
    store_relaxed(&slot->state, SIDECAR_RUNS);
    store_relaxed(&slot->events, 0);
    store_relaxed(&slot->forked, forked);
    if (conf.alert[0])
        FORKED_CLEAR(page->alerts[slot - page->slots]); /* of a former process or program */
    FORKED_CLEAR(page->dumps[slot - page->slots]);
    store_relaxed(&slot->began_ns, clock_ns(CLOCK_MONOTONIC));
    if (load_relaxed(&page->tracer))
        prctl(PR_SET_PTRACER, load_relaxed(&page->tracer), 0, 0, 0);
    atomic_store(&slot->pid, pid);
    if (!atomic_load(&page->closed))
        return slot;
    atomic_store(&slot->pid, 0);
    return NULL;
}

void goodbye_start(void)
{
    if (!conf.sidecar[0])
        return;
    page = sidecar_page_map(conf.sidecar);
    if (page && is_outside_namespace()) {
        munmap(page, SIDECAR_PAGE_BYTES);
        page = NULL;
    }
    if (page && conf_is_silent)
        sidecar_page_leave(page, (uint32_t)getpid()); /* it may have reported for the program that executed this one */
    own = page && !conf_is_silent ? take_slot(false) : NULL;
    conf_leave_to_sidecar();
}

struct alert_figures *goodbye_alerts(void)
{
    return own ? page->alerts[own - page->slots] : NULL;
}

COLD void goodbye_after_fork(void)
{
    if (!own)
        return;
    bool is_outside = is_forked_into_namespace();
    if (is_outside)
        store_relaxed(&page->left_out, load_relaxed(&own->pid)); /* the parent */
    bool is_followed = conf.follow_fork && !is_outside;
    snapshot_note_fork(is_followed && load_relaxed(&page->wants) == SIDECAR_WANTS_ALL);
    own = is_followed ? take_slot(true) : NULL;
    if (own && !atomic_exchange(&page->has_forked, 1))
        ring();
}

/* ---- Events ---- */

bool goodbye_is_served(void)
{
    return own;
}

bool goodbye_leave_events(uint32_t reasons)
{
    if (!own || reasons & ~load_relaxed(&page->reasons))
        return false;
    dump_show_counts(page->dumps[own - page->slots]);
    dump_on_leave_to((struct dump_on_outside){&own->events, &page->rings, &page->alive, &own->pid, (uint32_t)getpid()}, reasons);
    return true;
}

/* ---- The end ---- */

static bool is_dead(void)
{
    return load_acquire(&page->alive) & FUTEX_OWNER_DIED;
}

/* Returns false if the state does not come until then, the sidecar has died, or misses its beats. They are counted in
 * waits of this thread rather than by the clock: a busy machine delays both processes. */
static bool wait_for(struct sidecar_slot *slot, enum sidecar_state wanted, uint64_t until_ns)
{
    uint32_t state, last, beats = load_relaxed(&page->beats);
    for (unsigned missed = 0; (state = load_acquire(&slot->state)) < (uint32_t)wanted;) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC), wait_ns = until_ns - now < SIDECAR_BEAT_NS ? until_ns - now : SIDECAR_BEAT_NS;
        if (now >= until_ns || missed == MISSED_BEATS || is_dead())
            return false;
        const struct timespec wait = {.tv_nsec = (long)wait_ns};
        bool timed_out = syscall(SYS_futex, &slot->state, FUTEX_WAIT, state, &wait, NULL, 0) != 0 && errno == ETIMEDOUT;
        last = beats;
        beats = load_relaxed(&page->beats);
        missed = beats == last && timed_out ? missed + 1 : 0;
    }
    return true;
}

/* Scripts start hundreds of short-lived processes. They write no dump (dump_timer.c). */
static bool is_wanted(const struct sidecar_slot *slot)
{
    uint32_t wants = load_relaxed(&page->wants);
    uint64_t lived_ms = (clock_ns(CLOCK_MONOTONIC) - load_relaxed(&slot->began_ns)) / NS_PER_MS;
    return wants == SIDECAR_WANTS_ALL || (wants == SIDECAR_WANTS_DUMPED && (lived_ms >= conf.dump_at_exit_min_ms ||
                                                                         conf.dump_at_exit_pid == (uint64_t)getpid()));
}

/* Returns whether the sidecar has done what it was asked for. */
static bool ask(enum sidecar_state how, uint64_t until_ns)
{
    struct sidecar_slot *slot = own;
    uint64_t read_by_ns = clock_ns(CLOCK_MONOTONIC) + READ_WITHIN_NS;
    uint32_t runs = SIDECAR_RUNS;
    if (!slot || load_acquire(&slot->pid) != (uint32_t)getpid())
        return false;
    if (!is_wanted(slot) && !dump_on_has_left()) {
        own = NULL;
        dump_on_accept(0);
        store_release(&slot->pid, 0);
        return false;
    }
    if (!atomic_compare_exchange_strong(&slot->state, &runs, how))
        return false;
    ring();
    return wait_for(slot, SIDECAR_READ, read_by_ns < until_ns ? read_by_ns : until_ns) &&
           wait_for(slot, SIDECAR_DELIVERED, until_ns);
}

void goodbye_say(uint64_t until_ns)
{
    ask(SIDECAR_ASKS, until_ns);
}

void goodbye_say_first(uint64_t until_ns)
{
    if (ask(SIDECAR_ASKS_FIRST, until_ns))
        store_release(&own->state, SIDECAR_RUNS);
}
