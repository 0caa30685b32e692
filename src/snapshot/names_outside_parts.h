/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the files names_outside*.c share. */
#ifndef JESPAN_NAMES_OUTSIDE_PARTS_H
#define JESPAN_NAMES_OUTSIDE_PARTS_H

#include "snapshot/names_outside.h"
#include "snapshot/view_parts.h"

static inline int names_outside_copy(struct view *view, void *to, uint64_t from, size_t bytes)
{
    const struct piece piece = {to, from, bytes};
    return space_copy(&view->space, &piece, 1);
}

static inline int names_outside_number(struct mailbox_answer *answer, uint64_t value)
{
    answer->kind = MAILBOX_UNSIGNED;
    answer->value = value;
    return 0;
}

/* Cuts the text if it is too long. */
static inline int names_outside_words(struct mailbox_answer *answer, const char *text)
{
    answer->kind = MAILBOX_WORDS;
    strncpy(answer->words, text, sizeof answer->words - 1);
    return 0;
}

/* Copies a text of the process, which may be cut. Address 0: an empty text. */
int names_outside_text(struct view *view, uint64_t at, struct mailbox_answer *answer);

/* ---- names_outside_contexts.c: spans.<id>.NAME ---- */

/* As names_outside_get(). `rest` follows "spans." and begins with a digit. */
int names_outside_context(struct view *view, const struct snapshot *s, const char *rest, struct mailbox_answer *answer);

/* The same for sums of several contexts. Names that are no sums are not there. */
int names_outside_total(const struct view *view, const struct totals *t, const char *name, struct mailbox_answer *answer);

/* The names after spans.<id>, by index. NULL: the end. `is_total`: they may be names of sums too. */
const char *names_outside_context_name(size_t i, bool *is_total);

/* ---- names_outside_arenas.c: spans.arenas.<i>.NAME ---- */

/* As names_outside_get(). The arena is below spans.arenas.count. */
int names_outside_arena(struct view *view, uint32_t arena, const char *name, struct mailbox_answer *answer);

/* The names after spans.arenas.<i>, by index. NULL: the end. */
const char *names_outside_arena_name(size_t i);

/* ---- names_outside_threads.c: spans.threads.<thread>.NAME ---- */

/* As names_outside_get(). */
int names_outside_thread(struct view *view, uint32_t id, const char *name, struct mailbox_answer *answer);

/* The names after spans.threads.<thread>, by index. NULL: the end. */
const char *names_outside_thread_name(size_t i);

/* The numbers of all threads, to be freed. Returns 0 or a negative errno. */
int names_outside_thread_ids(struct view *view, uint32_t **ids, size_t *n);

/* Before a new snapshot. */
void names_outside_forget_threads(struct view_outside *o);

/* ---- names_outside_alerts.c: spans.alerts.<i>.NAME ---- */

/* As names_outside_get(). `shown_at` is the address of the process's alerts_shown. */
int names_outside_alert(struct view *view, uint64_t shown_at, uint32_t rule, const char *name, struct mailbox_answer *answer);

/* The names after spans.alerts.<i>, by index. NULL: the end. */
const char *names_outside_alert_name(size_t i);

#endif
