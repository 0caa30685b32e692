/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of another process's sites. Sites stay as they are, so each is copied once, and stays as long as the view. */
#include <errno.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/view_outside.h"

#define MAX_SITES (1u << 20)
#define BLOCK_BYTES ((size_t)64 << 10)
#define TEXT_BYTES (JESPAN_MAX_STRING_BYTES + 1)
#define PAGE_BYTES 4096

/* Memory is taken from blocks, which are never moved. */
struct outside_text {
    struct outside_text *before;
    size_t used;
    char bytes[];
};

static void *take(struct view_outside *o, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
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

/* A text ends with its NUL, with its longest length, or with the last page that there is. */
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
