/* SPDX-License-Identifier: BSD-2-Clause */
/* Labels: adding one to an open span, which moves the span to another context; and the labels of a traceparent
 * header. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "policy/regions.h"
#include "span/age.h"
#include "span/handles.h"
#include "span/labels.h"
#include "span/span.h"
#include "span/tree.h"

/* ---- Adding a label ---- */

/* The open span, or the JESPAN() block of the calling thread, that gets the label. */
struct subject {
    struct open_span *record; /* NULL: a block */
    enum entry_kind kind;
    uint64_t key;
    uint32_t context;
    bool borrows; /* it has the context of an ancestor (overflow), so its own site is not known */
};

static struct subject subject_of_block(const struct entry *e)
{
    return (struct subject){NULL, entry_kind(e), e->key, tree_whole(e->context), e->kind & ENTRY_BORROWS};
}

static struct subject subject_of_span(jespan_span_t *span, struct open_span *record)
{
    return (struct subject){record, ENTRY_SPAN, (uintptr_t)span, load_relaxed(&record->context), record->borrows};
}

/* The index of the innermost entry, JESPAN_CREDIT() left out; −1 if that is not a span. */
static int64_t last_entered(const struct thread *t)
{
    int64_t last = (int64_t)t->depth - 1;
    while (last >= 0 && entry_kind(&t->entries[last]) == ENTRY_CREDIT)
        last--;
    enum entry_kind kind = last < 0 ? ENTRY_SELF : entry_kind(&t->entries[last]);
    return kind == ENTRY_SPAN || kind == ENTRY_BLOCK ? last : -1;
}

/* Under LOCK_TREE. */
static int find_subject(struct subject *s, const struct thread *t, jespan_span_t *span)
{
    if (!span) {
        int64_t last = last_entered(t);
        if (last < 0)
            return EPERM;
        *s = subject_of_block(&t->entries[last]);
        if (s->kind == ENTRY_BLOCK)
            return 0;
        span = (jespan_span_t *)(uintptr_t)s->key;
    }
    struct open_span *record = handle_find(span);
    if (!record)
        return EINVAL;
    *s = subject_of_span(span, record);
    return 0;
}

/* Sets *to to the context with the label. It is the subject's own context if it has the label already, or if there
 * is no room for another one. Under LOCK_TREE. */
static int labelled_context(uint32_t *to, struct thread *t, const struct subject *s, const struct jespan_label *label)
{
    const struct context *from = &contexts[s->context];
    union label_draft *draft = labels_draft_of(t);
    if (!draft)
        return ENOMEM;
    int error = labels_draft_with(draft, from->labels, label);
    *to = s->context;
    if (error || s->borrows)
        return -error;
    const struct jespan_site site = {from->site->name, from->site->target, from->site->file, from->site->line};
    uint32_t id = tree_intern(from->parent, from->kind, &site, &draft->set);
    if (id != from->parent)
        *to = id;
    return id ? 0 : ENOMEM;
}

/* LOCK_TREE keeps the contexts from being recycled while they seem not to be in use. */
static int move_subject(struct thread *t, const struct subject *s, uint32_t to)
{
    uint32_t period = age_period_of(to);
    struct counters *c = period ? counters_get(t, period) : NULL;
    if (!c)
        return ENOMEM;
    if (s->record) {
        uint64_t now = timing_now();
        tree_open_span(to, now);
        handle_set_context(s->record, to);
        if (load_relaxed(&s->record->region))
            regions_move(load_relaxed(&s->record->region), s->context, to);
        tree_close_span(s->context, now);
        handle_set_period(s->record, period == to ? 0 : period);
    }
    span_move(t, s->kind, s->key, period, c);
    return 0;
}

static int add_label_locked(struct thread *t, jespan_span_t *span, const struct jespan_label *label)
{
    struct subject s;
    uint32_t to;
    int error = find_subject(&s, t, span);
    if (!error)
        error = labelled_context(&to, t, &s, label);
    return error || to == s.context ? error : move_subject(t, &s, to);
}

EXPORT int jespan_add_label(jespan_span_t *span, const struct jespan_label *label)
{
    struct thread *t = track_thread();
    if (!label || (span && !handle_context(span)))
        return EINVAL;
    if (!t)
        return span ? ENOMEM : EPERM;
    lock(LOCK_TREE);
    int error = add_label_locked(t, span, label);
    unlock(LOCK_TREE);
    return error;
}

/* ---- The traceparent header of the W3C's Trace Context (https://www.w3.org/TR/trace-context/#traceparent-header) ----
 *
 *     version-trace_id-parent_id-flags, in 2, 32, 16 and 2 lower-case hexadecimal digits
 */

enum { TRACE_ID = 3, PARENT_ID = 36, FLAGS = 53, END = 55 };
#define TRACE_ID_DIGITS 32
#define PARENT_ID_DIGITS 16

/* The value of a lower-case hexadecimal digit; −1 for any other character. */
static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads nothing after the first character that is not a digit, so nothing after the terminating zero. */
static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digit_value(s[i]) < 0)
            return false;
    return true;
}

static bool is_zero(const char *s, size_t n)
{
    return strspn(s, "0") >= n;
}

static bool is_laid_out(const char *s)
{
    return is_hex(s, 2) && s[TRACE_ID - 1] == '-' && is_hex(s + TRACE_ID, TRACE_ID_DIGITS) &&
           s[PARENT_ID - 1] == '-' && is_hex(s + PARENT_ID, PARENT_ID_DIGITS) && s[FLAGS - 1] == '-' &&
           is_hex(s + FLAGS, 2);
}

/* Later versions may have more fields. */
static bool has_end(const char *s, bool is_version_00)
{
    return s[END] == '\0' || (s[END] == '-' && !is_version_00);
}

EXPORT int jespan_parse_traceparent(const char *header, struct jespan_traceparent *out)
{
    if (!header || !out || !is_laid_out(header) || !strncmp(header, "ff", 2))
        return EINVAL;
    bool is_version_00 = is_zero(header, 2);
    if (!has_end(header, is_version_00) || is_zero(header + TRACE_ID, TRACE_ID_DIGITS) ||
        is_zero(header + PARENT_ID, PARENT_ID_DIGITS))
        return EINVAL;
    *out = (struct jespan_traceparent){0};
    memcpy(out->trace_id, header + TRACE_ID, TRACE_ID_DIGITS);
    memcpy(out->span_id, header + PARENT_ID, PARENT_ID_DIGITS);
    unsigned flags = (unsigned)(digit_value(header[FLAGS]) * 16 + digit_value(header[FLAGS + 1]));
    out->flags = (uint8_t)(is_version_00 ? flags : flags & JESPAN_TRACE_SAMPLED);
    return 0;
}
