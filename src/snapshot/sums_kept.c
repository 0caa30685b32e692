/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of counters that a view keeps. */
#include "snapshot/sums_kept.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/meta.h"
#include "snapshot/view_parts.h"

uint32_t sums_kept_least = 1u << 17;

void sums_kept_forget(struct view *view)
{
    meta_unmap(view->kept, view->kept_room * sizeof *view->kept);
    view->kept = NULL;
    view->kept_room = 0;
}

static _Atomic uint64_t made;

/* A new array knows nothing, and is full of zeroes. Lives are not 0, so no key is. */
static void make_room(struct view *view, uint32_t chunks)
{
    enum { LEAST = 64 };
    uint32_t room = LEAST;
    while (room < chunks)
        room *= 2;
    sums_kept_forget(view);
    struct kept_chunk *kept = meta_map(room * sizeof *kept);
    if (kept && madvise(kept, room * sizeof *kept, MADV_WIPEONFORK)) {
        meta_unmap(kept, room * sizeof *kept);
        return;
    }
    view->kept = kept;
    view->kept_room = kept ? room : 0;
    view->kept_number = atomic_fetch_add(&made, 1) + 1;
}

/* The time that objects have lived grows by itself. A core is read once. */
bool sums_kept_begin(struct view *view, uint32_t end, uint32_t n_threads)
{
    uint32_t chunks = (end + READING_CHUNK - 1) / READING_CHUNK;
    if (view->lifetimes || view->space.core || (uint64_t)end * n_threads < sums_kept_least)
        sums_kept_forget(view);
    else if (chunks > view->kept_room)
        make_room(view, chunks);
    return view->kept;
}

struct kept_chunk *sums_kept_chunk(const struct view *view, uint32_t first)
{
    return view->kept ? &view->kept[first / READING_CHUNK] : NULL;
}

bool sums_kept_stand(struct kept_chunk *kept, uint64_t key)
{
    bool is_same = kept->key == key;
    if (is_same && kept->stands)
        return true;
    kept->stands = is_same && kept->closed;
    kept->closed = false;
    kept->key = key;
    return false;
}

void sums_kept_note(struct kept_chunk *kept)
{
    bool closed = true;
    for (uint32_t i = 0; i < READING_CHUNK; i++)
        closed &= kept->sums[i].enters == kept->sums[i].exits;
    kept->closed = closed;
}
