/* SPDX-License-Identifier: BSD-2-Clause */
/* What a view remembers of contexts by id, so that it need not copy it for each snapshot.
 *
 * The kind and the labels of a context stay the same as long as its life does (tree.h). A life is read before what belongs to
 * it. If the context is recycled meanwhile, its life has changed when the next snapshot looks, so a copy that is a mixture of
 * two contexts is not used again.
 */
#include <string.h>

#include "base/meta.h"
#include "snapshot/snapshot_builder.h"

/* Texts begin at multiples of LABEL_ALIGN, the first at 1: 0 is no place. */
#define TEXTS_LEAST ((size_t)64 * 1024)

/* Room grows by doubling. Returns false when out of memory; then the array is as before. */
static bool grow(void *array, uint32_t *room, uint32_t end, size_t each)
{
    enum { LEAST = 4096 };
    void **at = array;
    uint32_t more = *room ? *room : LEAST;
    while (more < end)
        more *= 2;
    void *now = more == *room ? *at : meta_map(more * each);
    if (!now)
        return false;
    if (now != *at && *at)
        memcpy(now, *at, *room * each);
    if (now != *at)
        meta_unmap(*at, *room * each);
    *at = now;
    *room = more;
    return true;
}

void view_grow(struct view *view, uint32_t end)
{
    (void)grow(&view->seen, &view->seen_room, end, sizeof *view->seen);
    (void)grow(&view->passing, &view->passing_room, end, sizeof *view->passing);
    (void)grow(&view->known, &view->known_room, end, sizeof *view->known);
}

void view_forget(struct view *view)
{
    meta_unmap(view->seen, view->seen_room * sizeof *view->seen);
    meta_unmap(view->passing, view->passing_room * sizeof *view->passing);
    meta_unmap(view->known, view->known_room * sizeof *view->known);
    meta_unmap(view->texts, view->texts_bytes);
    sums_kept_forget(view);
}

struct seen *view_seen(struct view *view, uint32_t id, uint32_t life, struct seen *spare)
{
    struct seen *seen = id < view->seen_room ? &view->seen[id] : spare;
    if (seen == spare || seen->life != life) {
        *seen = (struct seen){.life = life};
        if (id < view->passing_room)
            view->passing[id] = (struct passing){.wall = 0};
    }
    return seen;
}

struct passing *view_passing(struct view *view, uint32_t id, struct passing *spare)
{
    if (id < view->passing_room)
        return &view->passing[id];
    *spare = (struct passing){.wall = 0};
    return spare;
}

struct known *view_known(struct view *view, uint32_t id, uint32_t life)
{
    return id < view->known_room && view->known[id].life == life ? &view->known[id] : NULL;
}

void view_know(struct view *view, uint32_t id, const struct known *known)
{
    if (id < view->known_room)
        view->known[id] = *known;
}

/* ---- Texts of labels ---- */

const char *view_text(const struct view *view, const struct known *known)
{
    return known->text ? view->texts + (size_t)known->text * LABEL_ALIGN : NULL;
}

static bool grow_texts(struct view *view, size_t bytes)
{
    size_t room = view->texts_bytes ? view->texts_bytes : TEXTS_LEAST;
    while (room < view->texts_used + bytes)
        room *= 2;
    if (room == view->texts_bytes)
        return true;
    char *more = room / LABEL_ALIGN <= UINT32_MAX ? meta_map(room) : NULL;
    if (!more)
        return false;
    if (view->texts)
        memcpy(more, view->texts, view->texts_used);
    meta_unmap(view->texts, view->texts_bytes);
    view->texts = more;
    view->texts_bytes = room;
    return true;
}

void view_keep_text(struct view *view, struct known *known, const char *text, size_t bytes)
{
    if (!view->texts_used)
        view->texts_used = LABEL_ALIGN;
    if (!grow_texts(view, bytes))
        return;
    memcpy(view->texts + view->texts_used, text, bytes);
    known->text = (uint32_t)(view->texts_used / LABEL_ALIGN);
    view->texts_used += bytes;
}

void view_tidy_texts(struct view *view, size_t needed)
{
    if (view->texts_used <= 2 * needed + TEXTS_LEAST)
        return;
    for (uint32_t id = 0; id < view->known_room; id++)
        view->known[id].text = 0;
    view->texts_used = 0;
}
