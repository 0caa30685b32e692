/* SPDX-License-Identifier: BSD-2-Clause */
/* The most that contexts had in use: looks, and what becomes of recycled contexts. */
#include "span/peaks.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "heap/sums.h"
#include "span/tree.h"

/* A look reads at most so many counters, so that the thread that looks is not held up: 32,768 take about 0.1 ms. There are
 * no more contexts either, and no more objects in free buffers. */
#define MOST_COUNTERS 32768u
#define MORE_COUNTERS (64 * MOST_COUNTERS) /* for programs that shall look as often as it helps: a look takes some ms */
/* Reading a chunk of all threads should take no longer: at least 20 µs, and 1 µs for each thread. A look needs no exact
 * times, so it does not wait until the rate of the clock is known. */
#define PATIENCE_TICKS 100000u
#define PATIENCE_THREAD_TICKS 5000u
#define STEPS_MOST 16u /* from contexts to those above them, for each context */

struct peaks all_peaks;
FIGURE_ROW(figure_looks, "spans.stats.peak_looks", all_peaks.looks, FIGURE_NUMBER);

/* Of one look, by id. */
struct sums {
    int64_t raw;          /* what the counters of this number say, less buffered frees */
    uint64_t own, total;  /* with the parts of the context; with all contexts below it */
    uint32_t children, nth; /* add_in_order(): how many are still to be added to it; the context that is the nth in order */
};
static struct meta_array peak_array;

int peaks_boot(uint32_t max_contexts)
{
    int error = meta_array_begin(&peak_array, max_contexts * sizeof *all_peaks.of);
    if (error)
        return error;
    meta_array_watch(&peak_array);
    store_release(&all_peaks.of, (struct context_peaks *)peak_array.start);
    return 0;
}

static uint32_t most_counters(void)
{
    return conf.peak_looks_percent == 100 ? MORE_COUNTERS : MOST_COUNTERS;
}

/* ---- Adding up ---- */

/* Read before the counters. A free that moves to its counter meanwhile is seen twice, so the sum is rather too low. */
static void subtract_buffered(struct sums *sums, uint32_t end)
{
    struct freed freed[FREE_BUFFER_MAX];
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        for (int n = load_relaxed(&t->free_buffer_count) ? sums_read_buffer(t, freed) : 0; n--;)
            if (freed[n].context < end)
                sums[freed[n].context].raw -= freed[n].bytes;
}

/* The bytes of one thread, all of the same moment, as sums_add_pair() reads them. */
static int64_t bytes_of(struct counters *c)
{
    enum { TRIES = 8 };
    uint64_t freed = 0, allocated = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        freed = load_acquire(&c->free_bytes);
        allocated = load_acquire(&c->alloc_bytes);
        if (load_relaxed(&c->free_bytes) == freed)
            break;
    }
    return (int64_t)(allocated - freed);
}

static void add_credited(int64_t bytes[COUNTERS_PER_CHUNK], struct counters *chunk)
{
    for (uint32_t left = load_relaxed(&counters_chunk(chunk)->more_used); left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        struct counters_more *more = counters_more(&chunk[i]);
        uint64_t out = load_acquire(&more->credited_out_bytes);
        bytes[i] += (int64_t)(load_relaxed(&more->credited_in_bytes) - out);
    }
}

/* The first `most` contexts of a chunk. Returns the number of counters that were read. */
static uint32_t add_threads(int64_t bytes[COUNTERS_PER_CHUNK], uint32_t chunk, uint32_t most)
{
    uint32_t n = 0;
    memset(bytes, 0, COUNTERS_PER_CHUNK * sizeof *bytes);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        struct counters *c = load_acquire(&t->chunks[chunk]);
        n++;
        if (!c)
            continue;
        for (uint32_t i = 0; i < most; i++)
            bytes[i] += bytes_of(&c[i]);
        add_credited(bytes, c);
        n += most;
    }
    return n;
}

/* Reads a chunk again where it took long, as reading_chunk() does: what other threads allocate and free meanwhile may be
 * seen as allocated only. Returns false if that goes on, and if there are too many counters. */
static bool add_up(struct sums *sums, uint32_t end)
{
    uint64_t patience = PATIENCE_TICKS + (uint64_t)PATIENCE_THREAD_TICKS * thread_count();
    uint32_t n = 0;
    int64_t bytes[COUNTERS_PER_CHUNK];
    for (uint32_t first = 0; first < end; first += COUNTERS_PER_CHUNK) {
        uint32_t most = end - first < COUNTERS_PER_CHUNK ? end - first : COUNTERS_PER_CHUNK;
        bool is_quick = false;
        for (int i = 0; !is_quick && i < SUMS_TRIES; i++) {
            uint64_t begin = clock_ticks();
            n += add_threads(bytes, first / COUNTERS_PER_CHUNK, most);
            is_quick = clock_ticks_after_loads() - begin <= patience;
        }
        if (!is_quick || n > most_counters())
            return false;
        for (uint32_t i = 0; i < most; i++)
            sums[first + i].raw += bytes[i];
    }
    return true;
}

/* Unsampled spans belong to the root. */
static uint32_t owner_of(uint32_t id)
{
    return id == CONTEXT_ID_UNSAMPLED ? CONTEXT_ID_ROOT : tree_whole(id);
}

static void set_own(struct sums *sums, uint32_t end)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++) {
        if (sums[id].raw <= 0 || !tree_is_live(id))
            continue;
        sums[owner_of(id)].own += (uint64_t)sums[id].raw;
        if (contexts[id].kind == CONTEXT_STACK)
            sums[id].own = (uint64_t)sums[id].raw;
    }
}

/* Whether it has contexts above it that have its bytes too. Parts are counted in their contexts. */
static bool has_parent(uint32_t id)
{
    return id != CONTEXT_ID_ROOT && id != CONTEXT_ID_UNSAMPLED && tree_is_live(id) && !tree_is_part(contexts[id].kind);
}

/* From each context to the root. Returns false after many steps, as with contexts that are nested deeply. */
static bool add_to_ancestors(struct sums *sums, uint32_t end)
{
    uint64_t steps = 0;
    sums[CONTEXT_ID_ROOT].total = sums[CONTEXT_ID_ROOT].own;
    for (uint32_t id = CONTEXT_ID_ROOT + 1; id < end; id++) {
        if (!sums[id].own || !has_parent(id))
            continue;
        for (uint32_t at = id; at != CONTEXT_ID_ROOT; at = contexts[at].parent, steps++)
            sums[at].total += sums[id].own;
        sums[CONTEXT_ID_ROOT].total += sums[id].own;
        if (steps > STEPS_MOST * (uint64_t)end)
            return false;
    }
    return true;
}

/* The same, however deep: each context is added to its parent when all its children were added to it. */
static void add_in_order(struct sums *sums, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++)
        sums[id].total = id == CONTEXT_ID_ROOT || has_parent(id) ? sums[id].own : 0;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++)
        if (has_parent(id))
            sums[contexts[id].parent].children++;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++)
        if (has_parent(id) && !sums[id].children)
            sums[n++].nth = id;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = sums[i].nth, parent = contexts[id].parent;
        sums[parent].total += sums[id].total;
        if (--sums[parent].children == 0 && has_parent(parent))
            sums[n++].nth = parent;
    }
}

/* ---- Looks ---- */

static bool raise_to(_Atomic uint64_t *peak, uint64_t bytes)
{
    bool is_higher = load_relaxed(peak) < bytes;
    if (is_higher)
        store_relaxed(peak, bytes);
    return is_higher;
}

/* Stacks reach new peaks for long, since there are many. So these do not count for when threads look again. */
static bool raise_peaks(const struct sums *sums, uint32_t end)
{
    bool has_raised = false, has_raised_stack = false;
    struct context_peaks *of = load_relaxed(&all_peaks.of);
    bool is_highest = sums[CONTEXT_ID_ROOT].total > load_relaxed(&of[CONTEXT_ID_ROOT].total_bytes);
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++) {
        if (is_highest)
            store_relaxed(&of[id].at_peak_bytes, sums[id].own);
        bool *raised = contexts[id].kind == CONTEXT_STACK ? &has_raised_stack : &has_raised;
        *raised |= raise_to(&of[id].own_bytes, sums[id].own);
        has_raised |= raise_to(&of[id].total_bytes, sums[id].total);
    }
    if (is_highest)
        store_relaxed(&all_peaks.retired.at_peak_bytes, 0);
    store_relaxed(&all_peaks.inuse_bytes, sums[CONTEXT_ID_ROOT].total);
    store_release(&all_peaks.end, end);
    store_relaxed(&all_peaks.looks, load_relaxed(&all_peaks.looks) + 1);
    if (has_raised || has_raised_stack || is_highest)
        own_add_release(&all_peaks.changes, 1);
    if (has_raised || has_raised_stack)
        state_copy(of, end * sizeof *of);
    STATE_COPY(all_peaks);
    return has_raised;
}

/* Of the first `end` contexts. The sums are all 0 at first. */
static enum peaks_look look_with(struct sums *sums, uint32_t end)
{
    subtract_buffered(sums, end);
    if (!add_up(sums, end))
        return PEAKS_TOO_MANY;
    set_own(sums, end);
    if (!add_to_ancestors(sums, end))
        add_in_order(sums, end);
    return raise_peaks(sums, end) ? PEAKS_RAISED : PEAKS_SAME;
}

#define FEW_CONTEXTS 128u

static enum peaks_look look_at_few(uint32_t end)
{
    static struct sums few[FEW_CONTEXTS];
    memset(few, 0, end * sizeof *few);
    return look_with(few, end);
}

/* For many contexts, the sums are mapped for each look: what stays mapped takes time in each fork. A mapping and its page fault take
 * longer than a look at few. */
static enum peaks_look look_at_many(uint32_t end)
{
    struct sums *sums = meta_map(end * sizeof *sums);
    if (sums)
        meta_touch(sums, end * sizeof *sums);
    enum peaks_look result = sums ? look_with(sums, end) : PEAKS_TOO_MANY;
    meta_unmap(sums, end * sizeof *sums);
    return result;
}

/* Under LOCK_TREE, so no context is recycled meanwhile. */
static enum peaks_look look(void)
{
    uint32_t end = tree_end();
    if (end > most_counters() || thread_blocks() > most_counters() / FREE_BUFFER_MAX ||
        !meta_array_grow(&peak_array, end * sizeof *all_peaks.of))
        return PEAKS_TOO_MANY;
    return end <= FEW_CONTEXTS ? look_at_few(end) : look_at_many(end);
}

COLD enum peaks_look peaks_look(void)
{
    if (lock_holds_all() || !try_lock(LOCK_TREE))
        return PEAKS_BUSY;
    int saved = errno;
    enum peaks_look result = load_relaxed(&all_peaks.of) ? look() : PEAKS_TOO_MANY;
    errno = saved;
    unlock(LOCK_TREE);
    return result;
}

/* ---- Other changes ---- */

COLD void peaks_reset(void)
{
    lock(LOCK_TREE);
    struct context_peaks *of = load_relaxed(&all_peaks.of);
    for (uint32_t id = 0; of && id < load_relaxed(&all_peaks.end); id++) {
        store_relaxed(&of[id].own_bytes, 0);
        store_relaxed(&of[id].total_bytes, 0);
        store_relaxed(&of[id].at_peak_bytes, 0);
    }
    own_add_release(&all_peaks.changes, 1);
    store_relaxed(&all_peaks.retired.own_bytes, 0);
    store_relaxed(&all_peaks.retired.total_bytes, 0);
    store_relaxed(&all_peaks.retired.at_peak_bytes, 0);
    if (of)
        state_copy(of, load_relaxed(&all_peaks.end) * sizeof *of);
    STATE_COPY(all_peaks);
    unlock(LOCK_TREE);
}

void peaks_retire(uint32_t id)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (id >= load_relaxed(&all_peaks.end))
        return;
    struct context_peaks *p = &load_relaxed(&all_peaks.of)[id];
    if (contexts[id].kind != CONTEXT_STACK) { /* else its context has them */
        raise_to(&all_peaks.retired.own_bytes, load_relaxed(&p->own_bytes));
        raise_to(&all_peaks.retired.total_bytes, load_relaxed(&p->total_bytes));
        own_add(&all_peaks.retired.at_peak_bytes, load_relaxed(&p->at_peak_bytes));
    }
    store_relaxed(&p->own_bytes, 0);
    store_relaxed(&p->total_bytes, 0);
    store_relaxed(&p->at_peak_bytes, 0);
    STATE_COPY(*p);
    STATE_COPY(all_peaks);
}
