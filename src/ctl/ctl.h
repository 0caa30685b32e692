/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of mallctl: jemalloc's own, which are passed to jemalloc, and spans.*, which the tables of this folder
 * answer. */
#ifndef JESPAN_CTL_H
#define JESPAN_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The arguments of one mallctl call without the name, by jemalloc's rules. */
struct ctl_call {
    void *old;
    size_t *old_bytes;
    const void *new_value;
    size_t new_bytes;
};

/* Returns a value of `bytes` to the caller. EINVAL: the caller's buffer has another size; it gets the bytes that fit.
 * EPERM: the caller wants to write. */
int ctl_read(const struct ctl_call *call, const void *value, size_t bytes);

int ctl_read_u64(const struct ctl_call *call, uint64_t value);

/* For a value that is an array, of which the caller gets the items that fit. ctl_check_array() returns 0, EPERM (the caller wants to
 * write) or EINVAL (there is nowhere to put the size). ctl_room() is how many items fit. ctl_end_array() tells the caller the size of
 * what it got, or of all n items if it asked for the size only. */
int ctl_check_array(const struct ctl_call *call);
size_t ctl_room(const struct ctl_call *call, size_t item_bytes);
void ctl_end_array(const struct ctl_call *call, size_t n, size_t item_bytes);

/* Counts the free buffer of the calling thread, so that the answer includes its last frees. */
void ctl_flush_own(void);

/* A new snapshot, valid until the next call, which reuses its memory. Under LOCK_CTL. NULL: no memory. */
const struct snapshot *ctl_look(void);

/* Takes a value of `bytes` from the caller. EINVAL: it is missing or has another size. */
int ctl_write(const struct ctl_call *call, void *value, size_t bytes);

/* A name under "spans.<group>." or directly under "spans.". `handle` returns 0 or an errno value. `id` is the number
 * of the context or the arena, if a group is a number. */
struct ctl_name {
    const char *name;
    int (*handle)(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
    /* For `handle`: */
    size_t offset;           /* of the figure in its struct, or an enum */
    uint64_t (*value)(void); /* returns the figure */
};

struct ctl_group {
    const char *name; /* NULL: the number of a context, an arena, an alert or a thread */
    const struct ctl_name *names;
    const struct ctl_group *groups; /* inside this group. NULL: none */
};

/* In ctl_jemalloc.c: names of jemalloc that jespan answers itself, or does something for. The first two return NULL
 * for all other names. The functions below accept NULL and do nothing. */
struct ctl_own_name;
const struct ctl_own_name *ctl_own_name_called(const char *name);
const struct ctl_own_name *ctl_own_name_of_mib(const size_t *mib, size_t length);

/* Before jemalloc is called. True: `error` is the answer, and jemalloc is not called. */
bool ctl_own_name_answers(const struct ctl_own_name *own, const struct ctl_call *call, int *error);

/* After jemalloc has answered with `error`. True: call it again, which may succeed now. */
bool ctl_own_name_again(const struct ctl_own_name *own, int error);

/* In ctl_contexts.c. ctl_figure_is_known(): whether the clocks in use give the figure with that offset in struct totals. */
bool ctl_figure_is_known(size_t offset);
extern const struct ctl_group ctl_context_groups[]; /* spans.<id>.total.NAME: a context and all its descendants */
extern const struct ctl_name ctl_context_names[], ctl_all_names[], ctl_retired_names[], ctl_sum_names[];

/* In ctl_paths.c. */
int ctl_find(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
int ctl_sum(const struct ctl_name *self, uint32_t id, const struct ctl_call *call); /* the offset is one in struct totals */

/* In ctl_arenas.c. */
extern const struct ctl_name ctl_arenas_names[];
extern const struct ctl_group ctl_arenas_groups[]; /* spans.arenas.<i>.NAME */
int ctl_context_arena(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
void ctl_refresh_jemalloc(void); /* makes jemalloc update its statistics, if there are span arenas */

/* In ctl_limits.c: the limit of a context, which can be written, and its figures. `self->offset` says which. */
enum ctl_limit_figure { CTL_LIMIT_SOFT, CTL_LIMIT_HARD, CTL_LIMIT_INUSE, CTL_LIMIT_REFUSALS };
int ctl_context_limit(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
int ctl_context_limit_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);

/* In ctl_alerts.c. */
extern const struct ctl_name ctl_alerts_names[];
extern const struct ctl_group ctl_alerts_groups[]; /* spans.alerts.<i>.NAME */

/* In ctl_threads.c. */
extern const struct ctl_name ctl_threads_names[];
extern const struct ctl_group ctl_threads_groups[]; /* spans.threads.<thread>.NAME */

/* In ctl_stats.c. */
extern const struct ctl_name ctl_stats_names[];
extern const struct ctl_group ctl_stats_groups[]; /* spans.stats.stacks.NAME, spans.stats.SERVICE.NAME */

/* In ctl_names.c. */
extern const struct ctl_name ctl_top_names[];   /* spans.NAME. Each table ends with a row without a name */
extern const struct ctl_group ctl_groups[];     /* spans.GROUP.NAME and spans.GROUP.GROUP.NAME. Ends with NULL names */

#endif
