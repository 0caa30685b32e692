/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocations are credited to stacks. */
#include "span/stack_mode.h"

#include <errno.h>
#include <string.h>

#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/parse.h"
#include "heap/thread.h"
#include "span/stack_code.h"

_Atomic(const char *) stack_mode_text = "off";
FIGURE_ROW(figure_mode, "spans.stacks", stack_mode_text, FIGURE_TEXT);

_Atomic uint32_t stack_mode_taken = 1; /* odd. contexts[].stacks_for is this, or 1 less: not taken, or older: not known */
static const char *names;              /* LOCK_TREE. Patterns, with | between them; NULL: all */

/* ---- Texts, which readers may keep ---- */

#define TEXTS_MOST 256

static struct text {
    struct text *next;
    char text[];
} *texts; /* LOCK_TREE */
static unsigned n_texts;

/* Returns the copy that was made for the same text before, or a new one. NULL: no memory, or too many texts. A mode without
 * names needs no copy. */
static const char *keep(enum stacks_mode mode, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (!strcmp(text, stacks_mode_name(mode)))
        return stacks_mode_name(mode);
    for (const struct text *t = texts; t; t = t->next)
        if (!strcmp(t->text, text))
            return t->text;
    struct text *t = n_texts < TEXTS_MOST && bytes <= STACK_MODE_BYTES ? meta_alloc(sizeof *t + bytes) : NULL;
    if (!t)
        return NULL;
    memcpy(t->text, text, bytes);
    t->next = texts;
    texts = t;
    n_texts++;
    return t->text;
}

/* ---- The mode ---- */

static COLD int set(enum stacks_mode mode, const char *text)
{
    int error = 0;
    if (mode != STACKS_OFF)
        error = stacks_boot();
    if (!error && mode != STACKS_OFF)
        error = tree_begin_stacks();
    const char *kept = error ? NULL : keep(mode, text);
    if (!kept)
        return -ENOMEM;
    stacks_mode_of(kept, &names);
    store_release(&stack_mode_text, kept);
    atomic_fetch_add_explicit(&stack_mode_taken, 2, memory_order_relaxed);
    store_relaxed(&stacks_mode, mode);
    if (mode != STACKS_OFF)
        stack_code_begin();
    return 0;
}

COLD int stack_mode_set(const char *text)
{
    const char *ignored;
    int mode = stacks_mode_of(text, &ignored);
    if (mode < 0)
        return -EINVAL;
    lock(LOCK_TREE);
    int error = set((enum stacks_mode)mode, text);
    unlock(LOCK_TREE);
    if (!error)
        thread_invalidate_all();
    return error;
}

/* ---- Names ---- */

static bool fits(const char *name)
{
    char pattern[STACK_MODE_BYTES];
    struct list_item item;
    for (const char *rest = names; list_next(&rest, &item);) {
        memcpy(pattern, item.text, item.bytes);
        pattern[item.bytes] = '\0';
        if (pattern_fits(pattern, name))
            return true;
    }
    return false;
}

/* The context or one above it has such a name. */
static bool is_covered(uint32_t context)
{
    if (contexts[context].is_own)
        return false;
    if (!names)
        return true;
    uint32_t id = context;
    while (id != CONTEXT_ID_ROOT && !fits(contexts[id].site->name))
        id = contexts[id].parent;
    return id != CONTEXT_ID_ROOT;
}

COLD bool stack_mode_decide(uint32_t context)
{
    if (!lock_if_possible(LOCK_TREE)) {
        stacks_count(&stacks_stats.missed);
        return false;
    }
    stack_code_look_if_due();
    bool covered = is_covered(context);
    store_relaxed(&contexts[context].stacks_for, load_relaxed(&stack_mode_taken) - !covered);
    unlock(LOCK_TREE);
    return covered;
}
