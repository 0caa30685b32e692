/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of another process's sites, of the frames of its stacks, and of the table of their code.
 *
 * Sites stay as they are, so each is copied once, and stays as long as the view. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/meta.h"
#include "base/number.h"
#include "snapshot/view_parts.h"
#include "span/tree.h"

#define MAX_SITES (1u << 20)
#define BLOCK_BYTES ((size_t)64 << 10)
#define TEXT_BYTES (JESPAN_MAX_STRING_BYTES + 1)
#define PAGE_BYTES 4096

/* Memory for sites comes in chunks, which are never moved. */
struct outside_text {
    struct outside_text *before;
    size_t used;
    char bytes[];
};

static void *take(struct view_outside *o, size_t bytes)
{
    bytes = round_up(bytes, 8);
    if (!o->texts || sizeof *o->texts + o->texts->used + bytes > BLOCK_BYTES) {
        struct outside_text *more = meta_map(BLOCK_BYTES);
        if (!more)
            return NULL;
        more->before = o->texts;
        o->texts = more;
    }
    void *p = o->texts->bytes + o->texts->used;
    o->texts->used += bytes;
    return p;
}

static struct outside_site *find(struct view_outside *o, uint64_t address)
{
    uint32_t i = (uint32_t)((address >> 3) * 0x9e3779b97f4a7c15u >> 32);
    while (o->sites[i & (o->sites_room - 1)].address && o->sites[i & (o->sites_room - 1)].address != address)
        i++;
    return &o->sites[i & (o->sites_room - 1)];
}

static int grow(struct view_outside *o)
{
    enum { LEAST = 256 };
    struct outside_site *old = o->sites;
    uint32_t old_room = o->sites_room, room = old_room ? 2 * old_room : LEAST;
    struct outside_site *more = room <= 2 * MAX_SITES ? meta_map(room * sizeof *more) : NULL;
    if (!more)
        return -ENOMEM;
    o->sites = more;
    o->sites_room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].address)
            *find(o, old[i].address) = old[i];
    meta_unmap(old, old_room * sizeof *old);
    return 0;
}

/* A text ends with its NUL, with its longest length, or with the last page that there is. The texts of a core are in
 * files, and may end where their mapping does. */
static int copy_text(struct view *view, char text[TEXT_BYTES], const char *there)
{
    struct piece piece = {text, space_address(there), TEXT_BYTES};
    memset(text, 0, TEXT_BYTES);
    int error = space_copy(&view->space, &piece, 1);
    size_t in_page = PAGE_BYTES - piece.from % PAGE_BYTES;
    if (error == -EFAULT && in_page < TEXT_BYTES) {
        piece.bytes = in_page;
        error = space_copy(&view->space, &piece, 1);
    }
    if (error == -EFAULT && view->space.core) { /* it was in a file that is gone, or another one now */
        strcpy(text, "(unknown)");
        error = 0;
    }
    text[TEXT_BYTES - 1] = '\0';
    return error;
}

static int copy_site(struct view *view, const struct site *there, struct site **copy)
{
    struct site site;
    *copy = NULL;
    char texts[3][TEXT_BYTES];
    const struct piece piece = {&site, space_address(there), sizeof site};
    int error = space_copy(&view->space, &piece, 1);
    if (error)
        return error;
    const char *const from[3] = {site.name, site.target, site.file};
    const char **const to[3] = {&site.name, &site.target, &site.file};
    for (int i = 0; i < 3 && !error; i++)
        error = copy_text(view, texts[i], from[i]);
    for (int i = 0; i < 3 && !error; i++) {
        size_t bytes = strlen(texts[i]) + 1;
        char *text = take(view->outside, bytes);
        *to[i] = text ? memcpy(text, texts[i], bytes) : NULL;
        error = text ? 0 : -ENOMEM;
    }
    *copy = error ? NULL : take(view->outside, sizeof site);
    if (*copy)
        **copy = (struct site){.line = site.line, .name = site.name, .target = site.target, .file = site.file};
    return error ? error : *copy ? 0 : -ENOMEM;
}

/* A context without a site that can be read is damaged; it has no row. */
const struct site *outside_find_site(struct view *view, const struct site *there, int *error)
{
    struct view_outside *o = view->outside;
    struct site *copy;
    if (!there || o->n_sites >= MAX_SITES)
        return NULL;
    if (2 * o->n_sites >= o->sites_room && (*error = grow(o)))
        return NULL;
    struct outside_site *place = find(o, space_address(there));
    if (place->address)
        return place->site;
    *error = copy_site(view, there, &copy);
    if (*error == -EFAULT)
        *error = 0;
    if (!copy)
        return NULL;
    *place = (struct outside_site){space_address(there), copy};
    o->n_sites++;
    return copy;
}

void outside_free_sites(struct view_outside *o)
{
    for (struct outside_text *block = o->texts, *before; block; block = before) {
        before = block->before;
        meta_unmap(block, BLOCK_BYTES);
    }
    meta_unmap(o->sites, o->sites_room * sizeof *o->sites);
}

/* ---- Frames of stacks ---- */

/* The frames of another process's stacks. They never change there, so only new ones are copied. A snapshot refers to
 * the copy. So the copy is only moved when it is full, and the view keeps the older copies (struct
 * outside_frames_room). */

#define MAX_FRAMES (1u << 24) /* the most that max_stacks can be */

/* Snapshots that were taken before still use a copy that was outgrown. Copies grow by doubling, so all of them together
 * take no more than the last one. */
struct outside_frames_room {
    struct outside_frames_room *older;
    size_t bytes;
    struct stack_frame frames[];
};

static struct outside_frames_room *room_of(struct stack_frame *frames)
{
    return (struct outside_frames_room *)((char *)frames - offsetof(struct outside_frames_room, frames));
}

static int grow_frames(struct view_outside *o, uint32_t n)
{
    size_t wanted = sizeof(struct outside_frames_room) + (size_t)n * sizeof *o->frames, bytes = o->frames_bytes ? o->frames_bytes : 1 << 20;
    while (bytes < wanted)
        bytes *= 2;
    if (bytes == o->frames_bytes)
        return 0;
    struct outside_frames_room *room = meta_map(bytes);
    if (!room)
        return -ENOMEM;
    room->bytes = bytes;
    room->older = o->frames ? room_of(o->frames) : NULL;
    if (o->frames)
        memcpy(room->frames, o->frames, o->n_frames * sizeof *o->frames);
    o->frames = room->frames;
    o->frames_bytes = bytes;
    return 0;
}

/* Readers follow parents, so each has to have a smaller number, as it has in books that are not damaged. */
static int check_frames(const struct stack_frame *frames, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++)
        if (frames[i].parent >= i && i)
            return -EBADMSG;
    return 0;
}

int outside_frames(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats)
{
    struct view_outside *o = view->outside;
    uint64_t from = 0;
    uint32_t end = 0;
    const struct piece pieces[] = {{&end, space_address(view->books.frames_end), sizeof end},
                                   {&from, space_address(view->books.frames), sizeof from},
                                   {stats, space_address(view->books.stacks), sizeof *stats}};
    int error = space_copy(&view->space, pieces, sizeof pieces / sizeof pieces[0]);
    if (!error && (end > MAX_FRAMES || end < o->n_frames || from & 7))
        error = -EBADMSG;
    if (!error)
        error = grow_frames(o, end);
    if (!error && end > o->n_frames) {
        const struct piece more = {o->frames + o->n_frames, from + o->n_frames * sizeof *o->frames,
                                    (end - o->n_frames) * sizeof *o->frames};
        error = space_copy(&view->space, &more, 1);
    }
    if (!error)
        error = check_frames(o->frames, o->n_frames, end);
    if (error)
        return error;
    *n_frames = o->n_frames = end;
    *frames = o->frames;
    return 0;
}

/* Only the state of an entry changes, so a snapshot may read the copy while the next one is taken. */
int outside_codes(struct view *view, const struct code **table, uint32_t *n)
{
    struct view_outside *o = view->outside;
    uint64_t from = 0;
    uint32_t end = 0;
    const struct piece pieces[] = {{&end, space_address(view->books.codes_end), sizeof end},
                                   {&from, space_address(view->books.codes), sizeof from}};
    int error = space_copy(&view->space, pieces, sizeof pieces / sizeof pieces[0]);
    if (!error && (end > CODES_MOST || from & 7))
        error = -EBADMSG;
    if (!error && end && !o->codes && !(o->codes = meta_map(CODES_MOST * sizeof *o->codes)))
        error = -ENOMEM;
    const struct piece all = {o->codes, from, end * sizeof *o->codes};
    if (!error && end)
        error = space_copy(&view->space, &all, 1);
    if (error)
        return error;
    for (uint32_t i = 0; i < end; i++) {
        struct code *c = &o->codes[i];
        c->file[CODE_FILE_BYTES - 1] = '\0';
        if (c->parts.build_id_bytes > OBJECT_BUILD_ID_BYTES)
            c->parts.build_id_bytes = 0;
    }
    *table = o->codes;
    *n = end;
    return 0;
}

void outside_free_frames(struct view_outside *o)
{
    meta_unmap(o->codes, CODES_MOST * sizeof *o->codes);
    for (struct outside_frames_room *room = o->frames ? room_of(o->frames) : NULL, *older; room; room = older) {
        older = room->older;
        meta_unmap(room, room->bytes);
    }
}

/* ---- Owners: which context has the figures of another one in its row ---- */

static uint32_t owner_of(uint32_t id, const struct context *c)
{
    bool is_part = c->kind == CONTEXT_STACK || c->kind == CONTEXT_PERIOD;
    return id == CONTEXT_ID_UNSAMPLED ? CONTEXT_ID_ROOT : is_part ? c->parent : id;
}

/* The parent of a stack may be a period. */
static int copy_owners(struct view *view, uint32_t *owners, uint32_t end)
{
    enum { AT_ONCE = 256 };
    uint64_t start = 0;
    const struct piece array = {&start, space_address(view->books.contexts), sizeof start};
    int error = space_copy(&view->space, &array, 1);
    struct context *some = malloc(AT_ONCE * sizeof *some);
    if (!some)
        error = -ENOMEM;
    for (uint32_t first = 0; first < end && !error; first += AT_ONCE) {
        uint32_t n = end - first < AT_ONCE ? end - first : AT_ONCE;
        const struct piece piece = {some, start + first * sizeof *some, n * sizeof *some};
        error = space_copy(&view->space, &piece, 1);
        for (uint32_t i = 0; i < n && !error; i++)
            owners[first + i] = owner_of(first + i, &some[i]);
    }
    free(some);
    return error;
}

int outside_owners(struct view *view, uint32_t **owners, uint32_t *n)
{
    const struct piece piece = {n, space_address(view->books.context_end), sizeof *n};
    int error = space_copy(&view->space, &piece, 1);
    if (!error && *n > CONTEXTS_MAX)
        error = -EBADMSG;
    *owners = error ? NULL : malloc(((size_t)*n + 1) * sizeof **owners);
    if (!error)
        error = *owners ? copy_owners(view, *owners, *n) : -ENOMEM;
    return error;
}
