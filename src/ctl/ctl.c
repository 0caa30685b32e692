/* SPDX-License-Identifier: BSD-2-Clause */
/* mallctl: finds names and MIBs, and calls their rows.
 *
 * A MIB of spans.* has one number for each part of the name. The first is CTL_SPANS and the last is the row in its
 * table. Between them stands one number for each group. A context or an arena is its own number there, so a caller can
 * replace it, as with jemalloc's arena and bin indices.
 */
#include "ctl/ctl.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mailbox.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/family.h"
#include "malloc/track.h"

#define CTL_SPANS ((size_t)1 << 20)      /* larger than the first part of any of jemalloc's MIBs */
#define CTL_GROUP_BASE ((size_t)1 << 40) /* + index of a named group. Smaller: the number of a context or an arena */
#define PARTS_MAX 4

int ctl_read(const struct ctl_call *call, const void *value, size_t bytes)
{
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!call->old || !call->old_bytes)
        return 0;
    size_t capacity = *call->old_bytes;
    *call->old_bytes = capacity < bytes ? capacity : bytes;
    memcpy(call->old, value, *call->old_bytes);
    return capacity == bytes ? 0 : EINVAL;
}

int ctl_check_array(const struct ctl_call *call)
{
    return call->new_value || call->new_bytes ? EPERM : call->old_bytes ? 0 : EINVAL;
}

size_t ctl_room(const struct ctl_call *call, size_t item_bytes)
{
    return call->old ? *call->old_bytes / item_bytes : 0;
}

void ctl_end_array(const struct ctl_call *call, size_t n, size_t item_bytes)
{
    size_t room = ctl_room(call, item_bytes);
    *call->old_bytes = (call->old && room < n ? room : n) * item_bytes;
}

int ctl_write(const struct ctl_call *call, void *value, size_t bytes)
{
    if (!call->new_value || call->new_bytes != bytes)
        return EINVAL;
    memcpy(value, call->new_value, bytes);
    return 0;
}

static bool is_ours(const char *name)
{
    return strncmp(name, "spans.", 6) == 0;
}

/* Returns the index of the row with that name, or −1. */
static long find_row(const struct ctl_name *names, const char *name)
{
    for (long i = 0; names[i].name; i++)
        if (!strcmp(names[i].name, name))
            return i;
    return -1;
}

/* Returns a decimal number, or 0 if the text is anything else. */
static size_t parse_id(const char *text, size_t n)
{
    size_t id = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || i >= 10)
            return 0;
        id = id * 10 + (size_t)(text[i] - '0');
    }
    return id;
}

/* Finds the group whose name is the first `n` bytes of the text, and its part of a MIB. */
static const struct ctl_group *find_group(const struct ctl_group *groups, const char *text, size_t n, size_t *part)
{
    *part = parse_id(text, n);
    for (const struct ctl_group *g = groups; g && g->names; g++) {
        if (g->name ? strlen(g->name) == n && !strncmp(g->name, text, n) : *part != 0) {
            if (g->name)
                *part = CTL_GROUP_BASE + (size_t)(g - groups);
            return g;
        }
    }
    return NULL;
}

static int name_to_mib(const char *name, size_t *mib, size_t *length)
{
    size_t parts[PARTS_MAX] = {CTL_SPANS}, n = 1;
    const struct ctl_group *groups = ctl_groups;
    const struct ctl_name *names = ctl_top_names;
    const char *rest = name + strlen("spans.");
    for (const char *dot; (dot = strchr(rest, '.')); rest = dot + 1) {
        const struct ctl_group *group =
            n < PARTS_MAX - 1 ? find_group(groups, rest, (size_t)(dot - rest), &parts[n++]) : NULL;
        if (!group)
            return ENOENT;
        names = group->names;
        groups = group->groups;
    }
    long row = find_row(names, rest);
    if (row < 0)
        return ENOENT;
    parts[n++] = (size_t)row;
    *length = *length < n ? *length : n; /* a part of it, as jemalloc does */
    memcpy(mib, parts, *length * sizeof *mib);
    return 0;
}

static size_t count_names(const struct ctl_name *names)
{
    size_t n = 0;
    while (names[n].name)
        n++;
    return n;
}

static const struct ctl_group *group_of(const struct ctl_group *groups, size_t part)
{
    size_t n = 0;
    while (groups && groups[n].names)
        n++;
    if (part >= CTL_GROUP_BASE)
        return part - CTL_GROUP_BASE < n ? &groups[part - CTL_GROUP_BASE] : NULL;
    for (const struct ctl_group *g = groups; g && g->names; g++)
        if (!g->name)
            return part && part <= UINT32_MAX ? g : NULL;
    return NULL;
}

static int call_by_mib(const size_t *mib, size_t length, const struct ctl_call *call)
{
    const struct ctl_group *groups = ctl_groups;
    const struct ctl_name *names = ctl_top_names;
    uint32_t id = 0;
    if (length < 2 || length > PARTS_MAX)
        return ENOENT;
    for (size_t i = 1; i < length - 1; i++) {
        const struct ctl_group *group = group_of(groups, mib[i]);
        if (!group)
            return ENOENT;
        id = group->name ? id : (uint32_t)mib[i];
        names = group->names;
        groups = group->groups;
    }
    size_t row = mib[length - 1];
    if (row >= count_names(names))
        return ENOENT;
    return names[row].handle(&names[row], id, call);
}

/* The program is about to change its thread's cache or an arena. jemalloc first gets the objects that we keep for the
 * thread. */
static void give_back_before(bool concerned, const struct ctl_call *call)
{
    struct thread *t = thread_current;
    if (t && concerned && (call->new_value || !call->old)) {
        thread_cache_flush(t);
        magazine_empty_depot(t);
    }
}

static bool concerns_thread_or_arena(const char *name)
{
    return !strncmp(name, "thread.", 7) || !strncmp(name, "arena.", 6);
}

static bool mib_concerns_thread_or_arena(const size_t *mib, size_t length)
{
    size_t thread[3], n = 3, arena[3], m = 3;
    return length && !jespan_je_mallctlnametomib("thread.tcache.flush", thread, &n) &&
           !jespan_je_mallctlnametomib("arena.0.purge", arena, &m) && (mib[0] == thread[0] || mib[0] == arena[0]);
}

/* A program that asks, and allocates no more, may wait for what jespan's threads do. */
static bool may_ask(void)
{
    bool may = track_may_allocate(track_thread());
    if (may)
        mailbox_start_if_due();
    return may;
}

EXPORT int FAMILY(mallctl)(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    const struct ctl_call call = {old, old_bytes, new_value, new_bytes};
    if (!name)
        return EINVAL;
    if (!may_ask())
        return EAGAIN;
    if (is_ours(name)) {
        size_t mib[PARTS_MAX], length = PARTS_MAX;
        int error = name_to_mib(name, mib, &length);
        return error ? error : call_by_mib(mib, length, &call);
    }
    int error;
    const struct ctl_own_name *own = ctl_own_name_called(name);
    if (ctl_own_name_answers(own, &call, &error))
        return error;
    give_back_before(concerns_thread_or_arena(name), &call);
    extents_pause++;
    error = jespan_je_mallctl(name, old, old_bytes, new_value, new_bytes);
    if (ctl_own_name_again(own, error))
        error = jespan_je_mallctl(name, old, old_bytes, new_value, new_bytes);
    extents_pause--;
    if (!error && new_value)
        extents_watch_thread(); /* the thread may have moved to another arena */
    return error;
}

EXPORT int FAMILY(mallctlnametomib)(const char *name, size_t *mib, size_t *length)
{
    if (!name || !mib || !length)
        return EINVAL;
    if (!track_may_allocate(track_thread()))
        return EAGAIN;
    return is_ours(name) ? name_to_mib(name, mib, length) : jespan_je_mallctlnametomib(name, mib, length);
}

EXPORT int FAMILY(mallctlbymib)(const size_t *mib, size_t length, void *old, size_t *old_bytes, void *new_value,
                                size_t new_bytes)
{
    const struct ctl_call call = {old, old_bytes, new_value, new_bytes};
    if (!mib)
        return EINVAL;
    if (!may_ask())
        return EAGAIN;
    if (length && mib[0] == CTL_SPANS)
        return call_by_mib(mib, length, &call);
    int error;
    const struct ctl_own_name *own = ctl_own_name_of_mib(mib, length);
    if (ctl_own_name_answers(own, &call, &error))
        return error;
    give_back_before(mib_concerns_thread_or_arena(mib, length), &call);
    extents_pause++;
    error = jespan_je_mallctlbymib(mib, length, old, old_bytes, new_value, new_bytes);
    if (ctl_own_name_again(own, error))
        error = jespan_je_mallctlbymib(mib, length, old, old_bytes, new_value, new_bytes);
    extents_pause--;
    if (!error && new_value)
        extents_watch_thread();
    return error;
}
