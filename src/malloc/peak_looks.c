/* SPDX-License-Identifier: BSD-2-Clause */
/* When threads look for peaks, and how much time they may spend on it. */
#include "malloc/peak_looks.h"

#include "base/clock.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "span/peaks.h"
#include "span/tree.h"

#define STEP_LEAST 4096u
/* The step of all threads together, as a share of the bytes in use: after a look that raised a peak, and after one that
 * did not, as where a program frees as much as it allocates. */
#define STEP_SHARE_RAISED 256u
#define STEP_SHARE_SAME 64u
/* After the time for looks is used up, a thread asks again when it has moved this many steps more, or this share more of what it
 * has moved since it made a look due. So it reads the clock rarely, and waits too long by at most that share. */
#define STEPS_REFUSED 4u
#define REFUSED_SHARE 4u

/* Looks may take `peak_looks_percent` of the time since the start, and this much more, which is some milliseconds. What is
 * not used within the last of these is lost. */
#define BURST_TICKS UINT64_C(15000000)
#define LOOK_AROUND_TICKS UINT64_C(1000) /* what a look takes before and after it: the slow sides of malloc and free */
#define LOOK_TICKS_MOST UINT64_C(3000000) /* what one look counts at most: its thread may have lost the processor */
#define PAUSE_TICKS UINT64_C(3000000000)  /* after a look at too many counters */

_Atomic uint64_t peak_looks_step = UINT64_MAX;
_Atomic bool peak_looks_due;
static _Atomic uint64_t start, spent, pause_until; /* in ticks. Threads may overwrite each other's: it is about the amount */

COLD void peak_looks_boot(void)
{
    store_relaxed(&start, clock_ticks());
    if (conf.peak_looks_percent)
        store_relaxed(&peak_looks_step, STEP_LEAST);
}

static bool may_look(void)
{
    uint64_t now = clock_ticks(), used = load_relaxed(&spent);
    uint64_t earned = (now - load_relaxed(&start)) / 100 * conf.peak_looks_percent;
    if (now < load_relaxed(&pause_until))
        return false;
    if (conf.peak_looks_percent == 100)
        return true;
    if (earned > used)
        store_relaxed(&spent, used = earned);
    return used < earned + BURST_TICKS;
}

/* Reading the clock takes longer than the rest of malloc. */
COLD void peak_looks_make_due(struct thread *t)
{
    if (t->peak_moved < t->peak_asks_at)
        return;
    if (!may_look()) {
        uint64_t steps = STEPS_REFUSED * load_relaxed(&peak_looks_step), share = t->peak_moved / REFUSED_SHARE;
        t->peak_asks_at = t->peak_moved + (steps > share ? steps : share);
        return;
    }
    t->peak_moved = t->peak_asks_at = 0;
    store_relaxed(&peak_looks_due, true);
    track_let_flush(FLUSH_LOOKS, true);
}

static void set_step(uint32_t share)
{
    uint32_t threads = thread_count();
    uint64_t step = load_relaxed(&all_peaks.inuse_bytes) / share / (threads ? threads : 1);
    store_relaxed(&peak_looks_step, step > STEP_LEAST ? step : STEP_LEAST);
}

COLD void peak_looks_now(void)
{
    uint64_t begin = clock_ticks();
    enum peaks_look result = peaks_look();
    if (result == PEAKS_BUSY)
        return; /* it stays due */
    store_relaxed(&peak_looks_due, false);
    track_let_flush(FLUSH_LOOKS, false);
    uint64_t now = clock_ticks(), took = now - begin + LOOK_AROUND_TICKS;
    store_relaxed(&spent, load_relaxed(&spent) + (took < LOOK_TICKS_MOST ? took : LOOK_TICKS_MOST));
    if (result == PEAKS_TOO_MANY)
        store_relaxed(&pause_until, now + PAUSE_TICKS);
    else
        set_step(result == PEAKS_RAISED ? STEP_SHARE_RAISED : STEP_SHARE_SAME);
}
