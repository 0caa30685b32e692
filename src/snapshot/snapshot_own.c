/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of this process. */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/forked.h"
#include "base/lock.h"
#include "conf/conf.h"
#include "heap/classes.h"
#include "heap/magazine.h"
#include "heap/timing.h"
#include "snapshot/books.h"
#include "snapshot/event_reader.h"
#include "snapshot/snapshot.h"
#include "snapshot/view_parts.h"
#include "span/events.h"
#include "stacks/stacks.h"

uint64_t snapshot_start_ns;
static uint64_t start_unix_ns; /* for readers of a core */

static size_t own_bytes(struct view *view, uint32_t end)
{
    (void)view, (void)end;
    return reading_bytes();
}

static int own_begin(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end)
{
    (void)sums_kept_begin(view, end, thread_blocks());
    *r = reading_begin(memory, bytes, end);
    return 0;
}

static int own_chunk(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK])
{
    reading_chunk(r, first, sums);
    return 0;
}

static uint64_t own_end(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to)
{
    return reading_end(r, add, to);
}

static const struct site *own_site(struct view *view, const struct site *there, int *error)
{
    (void)view, (void)error;
    return there;
}

static int own_frames(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats)
{
    (void)view;
    *n_frames = load_acquire(&stack_frames_end);
    *frames = stack_frames;
    store_relaxed(&stats->ended_early, load_relaxed(&stacks_stats.ended_early));
    store_relaxed(&stats->cut, load_relaxed(&stacks_stats.cut));
    store_relaxed(&stats->overflow, load_relaxed(&stacks_stats.overflow));
    store_relaxed(&stats->sample_bytes, load_relaxed(&stacks_stats.sample_bytes));
    return 0;
}

static int own_codes(struct view *view, const struct code **all, uint32_t *n)
{
    (void)view;
    *n = load_acquire(&codes_end);
    *all = codes;
    return 0;
}

static uint64_t own_ticks(struct view *view)
{
    (void)view;
    return clock_ticks();
}

static uint64_t own_scale(struct view *view)
{
    (void)view;
    return clock_scale();
}

/* Contexts are recycled many at a time, and then not for long. Only if no gap was found, recycling has to wait. */
static bool own_wait(unsigned tries)
{
    enum { PATIENCE = 32 };
    if (tries < PATIENCE) {
        int saved = errno;
        sched_yield();
        errno = saved;
        return false;
    }
    lock(LOCK_TREE);
    return true;
}

static void own_end_wait(void)
{
    unlock(LOCK_TREE);
}

static const struct view_reader own_reader = {
    .bytes = own_bytes, .begin = own_begin, .chunk = own_chunk, .moved = reading_moved, .end = own_end,
    .site = own_site, .frames = own_frames, .codes = own_codes,
    .ticks = own_ticks, .scale = own_scale, .wait = own_wait, .end_wait = own_end_wait};

static struct view own = {.reader = &own_reader}; /* LOCK_SNAPSHOT */

struct snapshot *snapshot_retake(struct snapshot *old)
{
    lock(LOCK_SNAPSHOT);
    own.books = books;
    own.pid = (uint32_t)getpid();
    own.start_ns = snapshot_start_ns;
    own.times = timing_is_on;
    own.lifetimes = conf.lifetimes;
    own.cpu_times = cpu_clock_in_use() != CPU_CLOCK_NONE;
    int error = view_take(&own, &old);
    unlock(LOCK_SNAPSHOT);
    return error ? NULL : old;
}

struct snapshot *snapshot_take(void)
{
    return snapshot_retake(NULL);
}

/* In a forked child that is reported for: its figures at the fork. NULL: there are none. */
static WRITTEN_AT_FORK struct snapshot *of_fork;

#define MOST_OF_FORK 1000 /* contexts: with this many, a fork takes 0.6 ms longer */

COLD void snapshot_note_fork(bool wanted)
{
    struct snapshot *before = of_fork;
    wanted = wanted && tree_live_contexts() <= MOST_OF_FORK && load_relaxed(&stack_frames_end) <= 1;
    struct snapshot *now = wanted ? snapshot_retake(before) : NULL;
    if (before && !now)
        snapshot_free(before);
    if (before || now)
        of_fork = now;
}

int snapshot_read_events(struct event_reader *r, struct event_sink *sink)
{
    struct space here = {0};
    const struct event_source from = {.space = &here, .rings_at = space_address(&event_rings.n),
                                      .start_ticks = clock_state.start_ticks, .now_ticks = clock_ticks(), .scale = clock_scale()};
    return event_reader_read(r, &from, sink);
}

void snapshot_start_clock(void)
{
    snapshot_start_ns = clock_ns(CLOCK_BOOTTIME);
    start_unix_ns = clock_unix_ns();
}

void snapshot_keep_idle(const struct snapshot_row *row, struct totals *inclusive)
{
    struct seen spare;
    lock(LOCK_SNAPSHOT);
    if (row->id >= own.seen_room || own.seen[row->id].life <= 2 * row->generation + 1) {
        struct shown *shown = &view_seen(&own, row->id, 2 * row->generation + 1, &spare)->shown;
        if (shown->idle_inclusive < inclusive->idle)
            shown->idle_inclusive = inclusive->idle;
        inclusive->idle = shown->idle_inclusive;
    }
    unlock(LOCK_SNAPSHOT);
}

/* ---- The books of this process, and the note that leads to them ---- */

/* The linker defines these where the section of base/figures.h begins and ends. */
extern const struct figure_row __start_jespan_figures[] __attribute__((visibility("hidden")));
extern const struct figure_row __stop_jespan_figures[] __attribute__((visibility("hidden")));

const struct books books = {
    .magic = BOOKS_MAGIC,
    .layout = BOOKS_LAYOUT,
    .fingerprint = BOOKS_FINGERPRINT,
    .contexts = &contexts,
    .context_heads = &context_heads,
    .context_lives = &context_lives,
    .context_bases = &context_bases,
    .context_pasts = &context_pasts,
    .context_end = &tree_next_id,
    .retired = &contexts_retired,
    .peaks = &all_peaks,
    .first_thread = &thread_orphan,
    .class_bytes = class_bytes,
    .magazine_max = magazine_max,
    .depot = &depot,
    .clock = &clock_state,
    .cpu_clock = &cpu_clock_wanted,
    .times = &timing_is_on,
    .lifetimes = &conf.lifetimes,
    .start_ns = &snapshot_start_ns,
    .start_unix_ns = &start_unix_ns,
    .page_root = page_root,
    .class_slab_pages = class_slab_pages,
    .frames = &stack_frames,
    .frames_end = &stack_frames_end,
    .codes = &codes,
    .codes_end = &codes_end,
    .stacks = &stacks_stats,
    .thread_pasts = &thread_pasts,
    .mailbox = &mailbox,
    .slow_work = &slow_work,
    .size_to_class = size_to_class,
    .events = &event_rings,
    .limits = limits_chunks,
    .arenas = &arenas,
    .figures = __start_jespan_figures,
    .figures_end = __stop_jespan_figures,
    .of_fork = &of_fork,
};

/* A note has a name and a content, both padded to 4 bytes. */
__asm__(".pushsection .note.jespan, \"a\", @note\n"
        ".balign 4\n"
        ".long 7, 8, 1\n"
        ".asciz \"jespan\"\n"
        ".balign 4\n"
        "1: .quad jespan_books - 1b\n"
        ".popsection\n");
_Static_assert(sizeof BOOKS_NOTE_NAME == 7 && BOOKS_NOTE_TYPE == 1, "the note says so");
