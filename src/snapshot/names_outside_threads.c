/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the threads of another process: spans.threads.*. All of them are read at once, after each snapshot. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/names_outside_parts.h"
#include "snapshot/view_threads.h"

struct named_threads {
    struct view_threads all;
    struct thread_shares *shares;
};

void names_outside_forget_threads(struct view_outside *o)
{
    struct named_threads *named = o->named_threads;
    if (named) {
        view_threads_free(&named->all);
        free(named->shares);
    }
    free(named);
    o->named_threads = NULL;
}

static int read_threads(struct view *view, const struct named_threads **named)
{
    struct named_threads *n = view->outside->named_threads;
    int error = 0;
    if (!n) {
        n = view->outside->named_threads = calloc(1, sizeof *n);
        error = n ? view_threads_read(&n->all, view, VIEW_MOST_CELLS) : -ENOMEM;
        if (!error && !(n->shares = view_threads_shares(&n->all)))
            error = -ENOMEM;
        if (error)
            names_outside_forget_threads(view->outside);
    }
    *named = n;
    return error;
}

/* The threads without a block have no number. */
static bool has_name(const struct view_thread *t)
{
    return t->thread_id > 0 && t->lives > 0;
}

/* The live one of several that had the number; else the newest so far as that is known. Threads that have a block come first, and
 * records in the order in which they were made. */
static const struct view_thread *find(const struct view_threads *all, uint32_t id)
{
    const struct view_thread *found = NULL;
    for (uint32_t i = 0; i < all->n_threads; i++) {
        const struct view_thread *t = &all->threads[i];
        bool is_record = i >= all->n_blocks;
        if (has_name(t) && (uint32_t)t->thread_id == id && (!found || t->live || (is_record && found >= all->threads + all->n_blocks)))
            found = t;
    }
    return found;
}

static const char *const thread_names[] = {"name", "live", "threads", "alloc_objects", "alloc_bytes", "free_objects", "free_bytes",
                                           "inuse_least_bytes", "inuse_most_bytes", "freed_by_others_least_bytes",
                                           "freed_by_others_most_bytes"};
#define N_NAMES (sizeof thread_names / sizeof *thread_names)

const char *names_outside_thread_name(size_t i)
{
    return i < N_NAMES ? thread_names[i] : NULL;
}

int names_outside_thread(struct view *view, uint32_t id, const char *name, struct mailbox_answer *answer)
{
    const struct named_threads *named;
    size_t i = 0;
    while (i < N_NAMES && strcmp(thread_names[i], name) != 0)
        i++;
    if (i == N_NAMES)
        return -EOPNOTSUPP;
    int error = read_threads(view, &named);
    const struct view_thread *t = error ? NULL : find(&named->all, id);
    if (!t)
        return error ? error : -ENOENT;
    if (i == 0)
        return names_outside_words(answer, t->name);
    const struct thread_shares *s = &named->shares[t - named->all.threads];
    const uint64_t values[N_NAMES] = {0, t->live, t->lives, t->alloc_objects, t->alloc_bytes, t->free_objects, t->free_bytes,
                                      s->in_use.low, s->in_use.high, s->freed_by_others.low, s->freed_by_others.high};
    return names_outside_number(answer, values[i]);
}

int names_outside_thread_ids(struct view *view, uint32_t **ids, size_t *n)
{
    const struct named_threads *named;
    int error = read_threads(view, &named);
    *n = 0;
    *ids = error ? NULL : malloc(((size_t)named->all.n_threads + 1) * sizeof **ids);
    for (uint32_t i = 0; *ids && i < named->all.n_threads; i++)
        if (has_name(&named->all.threads[i]))
            (*ids)[(*n)++] = (uint32_t)named->all.threads[i].thread_id;
    return error ? error : *ids ? 0 : -ENOMEM;
}
