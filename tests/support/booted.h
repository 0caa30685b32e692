/* SPDX-License-Identifier: BSD-2-Clause */
/* For unit tests that need jespan booted, after cmocka.h: a thread's block, the tree, and contexts. */
#ifndef JESPAN_TESTS_BOOTED_H
#define JESPAN_TESTS_BOOTED_H

#include "base/lock.h"
#include "malloc/track.h"
#include "span/tree.h"

/* A group's setup. */
static inline int boot(void **state)
{
    (void)state;
    return track_thread() ? 0 : -1;
}

/* The number of a span's context; 0 where there is none for it. */
static inline uint32_t intern_with(uint32_t parent, const struct jespan_site *of, const struct jespan_label *labels, size_t n)
{
    union label_draft draft;
    assert_int_equal(labels_draft(&draft, labels, n), 0);
    lock(LOCK_TREE);
    uint32_t id = tree_intern(parent, CONTEXT_SPAN, of, &draft.set);
    unlock(LOCK_TREE);
    return id;
}

#endif
