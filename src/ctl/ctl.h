/* SPDX-License-Identifier: BSD-2-Clause */
/* mallctl's names: jemalloc's own, passed through, and spans.*, from the tables in ctl_names.c. */
#ifndef JESPAN_CTL_H
#define JESPAN_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The arguments of one mallctl call beyond the name, by jemalloc's rules. */
struct ctl_call {
    void *old;
    size_t *old_bytes;
    const void *new_value;
    size_t new_bytes;
};

/* Hands out a value of `bytes`; EINVAL where the caller's room is of another size (what fits is copied), EPERM where
 * the caller wants to write. */
int ctl_read(const struct ctl_call *call, const void *value, size_t bytes);

int ctl_read_u64(const struct ctl_call *call, uint64_t value);

/* Counts what the calling thread has freed, before an answer. */
void ctl_flush_own(void);

/* A snapshot of this moment, which is the next one's memory. Under LOCK_CTL. NULL: no memory. */
const struct snapshot *ctl_look(void);

/* Takes a value of `bytes`; EINVAL where it is missing or of another size. */
int ctl_write(const struct ctl_call *call, void *value, size_t bytes);

/* A name under "spans.<group>." or directly under "spans.". Returns 0 or an errno value. `id` is the number of the context
 * or the arena, where a group is one of these. */
struct ctl_name {
    const char *name;
    int (*handle)(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
    size_t offset; /* in struct totals, of a figure; of a dump, its profile */
};

struct ctl_group {
    const char *name; /* NULL: a number, of a context or an arena */
    const struct ctl_name *names;
    const struct ctl_group *groups; /* in it; NULL: none */
};

/* In ctl_jemalloc.c: the names of jemalloc's that jespan answers, or does something for. NULL, which the others take too: none
 * of them. */
struct ctl_own_name;
const struct ctl_own_name *ctl_own_name_called(const char *name);
const struct ctl_own_name *ctl_own_name_of_mib(const size_t *mib, size_t length);

/* Before jemalloc is called: whether it is not to be called at all, as `error` is the answer. */
bool ctl_own_name_answers(const struct ctl_own_name *own, const struct ctl_call *call, int *error);

/* After jemalloc has answered with `error`: whether another call may do better. */
bool ctl_own_name_again(const struct ctl_own_name *own, int error);

/* At the end. */
void ctl_own_name_after(const struct ctl_own_name *own, const struct ctl_call *call, int error);

/* In ctl_contexts.c. */
extern const struct ctl_group ctl_context_groups[]; /* spans.<id>.total.NAME: a context with all below it */
extern const struct ctl_name ctl_context_names[], ctl_all_names[], ctl_retired_names[];

/* In ctl_arenas.c. */
extern const struct ctl_name ctl_arenas_names[];
extern const struct ctl_group ctl_arenas_groups[]; /* spans.arenas.<i>.NAME */
int ctl_context_arena(const struct ctl_name *self, uint32_t id, const struct ctl_call *call);
void ctl_refresh_jemalloc(void); /* its figures of span arenas, if there are any */

/* In ctl_names.c. */
extern const struct ctl_name ctl_top_names[];   /* spans.NAME; ends with a NULL name, as all do */
extern const struct ctl_group ctl_groups[];     /* spans.GROUP.NAME and spans.GROUP.GROUP.NAME; end with NULL names */

#endif
