/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: all contexts with their figures at one moment, for programs that look at themselves. docs/snapshots.md has an
 * example.
 *
 * A snapshot never changes. Rows and texts belong to it and stay until jespan_snapshot_free(). Any threads may read a snapshot at
 * once; only the free must come after all of that. It lies in memory of jespan's own, so taking and reading it changes no figure of
 * the program. Taking one takes 20 microseconds, and more with thousands of contexts; it takes locks, but other threads that
 * allocate or open spans do not wait for it.
 *
 * Functions that read accept NULL and then return 0, NULL or "". None of these functions may be called in a signal handler, or in
 * the callbacks of extent hooks and samplers. In callbacks of reporters, limits and alerts, all may. A forked child may read
 * snapshots of its parent, and frees them itself.
 */
#ifndef JESPAN_SNAPSHOT_API_H
#define JESPAN_SNAPSHOT_API_H

#include <stddef.h>
#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct jespan_snapshot jespan_snapshot_t; /* never dereference it */
typedef struct jespan_row jespan_row_t;           /* a context in a snapshot; never dereference it */

/* Figures, as mallctl's spans.<id>.NAME has them. Bytes are usable bytes, times are nanoseconds. Later versions may add some at
 * the end. */
enum jespan_figure {
    JESPAN_INUSE_BYTES,
    JESPAN_INUSE_OBJECTS,
    JESPAN_ALLOC_BYTES, /* this and all below but OUTLIVED only grow, while the context lives. While threads work, FREE may go back by
                           objects whose free one snapshot saw in a thread's buffer and the next one saw nowhere yet */
    JESPAN_ALLOC_OBJECTS,
    JESPAN_ALLOC_REQUESTED_BYTES,
    JESPAN_FREE_BYTES,
    JESPAN_FREE_OBJECTS,
    JESPAN_CREDITED_IN_BYTES,
    JESPAN_CREDITED_IN_OBJECTS,
    JESPAN_CREDITED_OUT_BYTES,
    JESPAN_CREDITED_OUT_OBJECTS,
    JESPAN_OPENS,
    JESPAN_ENTERS,
    JESPAN_WALL_NS, /* times are JESPAN_UNKNOWN where track_time and cpu_clock do not give them */
    JESPAN_BUSY_NS,
    JESPAN_IDLE_NS,
    JESPAN_CPU_NS,
    JESPAN_OUTLIVED_BYTES,
    JESPAN_OUTLIVED_OBJECTS,
    JESPAN_TEMPORARY_OBJECTS, /* docs/stacks.md. 0 without stacks; only grows */
    JESPAN_LIFETIMES_US, /* of all objects so far, added up: docs/stacks.md. JESPAN_UNKNOWN without lifetimes:true */
};

#define JESPAN_UNKNOWN UINT64_MAX

/* A context that differs between two snapshots. */
struct jespan_snapshot_change {
    const jespan_row_t *before; /* NULL: the context is new */
    const jespan_row_t *after;  /* NULL: it was recycled. It held no memory then, and its counters are part of "(retired)" */
    uint32_t next_before_, next_after_; /* jespan's */
};

#ifndef JESPAN_DISABLE

/* Takes a snapshot of this process. What the calling thread did before is in it. Figures are exact while other threads neither
 * allocate nor free, and no figure is negative in any case.
 * Returns a snapshot to be given to jespan_snapshot_free(), or NULL with errno ENOMEM. */
JESPAN_API jespan_snapshot_t *jespan_snapshot_take(void);

/* NULL is ignored. Leaves errno alone. */
JESPAN_API void jespan_snapshot_free(jespan_snapshot_t *snapshot);

/* When it was taken, in nanoseconds since 1970. */
JESPAN_API uint64_t jespan_snapshot_time_ns(const jespan_snapshot_t *snapshot);

/* A figure of all contexts together, with those that were recycled. JESPAN_UNKNOWN also for a figure that this version does not
 * know. */
JESPAN_API uint64_t jespan_snapshot_figure(const jespan_snapshot_t *snapshot, enum jespan_figure figure);

/* Returns the row after `row`, or the first one for NULL, by the numbers of contexts. NULL: there is none. The first row is the
 * root. A parent may come after its child. */
JESPAN_API const jespan_row_t *jespan_snapshot_next(const jespan_snapshot_t *snapshot, const jespan_row_t *row);

/* Returns the row of a context, or NULL with errno ENOENT. JESPAN_CURRENT and JESPAN_BASE stand for those of the calling
 * thread now. */
JESPAN_API const jespan_row_t *jespan_snapshot_find(const jespan_snapshot_t *snapshot, jespan_context_t context);

/* Returns the row of the context above, or NULL for the root. */
JESPAN_API const jespan_row_t *jespan_row_parent(const jespan_snapshot_t *snapshot, const jespan_row_t *row);

/* The number of the context. It may be given to another context later; jespan_row_id() never is, in this process. */
JESPAN_API jespan_context_t jespan_row_context(const jespan_row_t *row);
JESPAN_API uint64_t jespan_row_id(const jespan_row_t *row);

/* "root", "jespan", "thread" or "span"; and the site: name, module, file and line. Unknown texts are "", an unknown line is 0. */
JESPAN_API const char *jespan_row_kind(const jespan_row_t *row);
JESPAN_API const char *jespan_row_name(const jespan_row_t *row);
JESPAN_API const char *jespan_row_target(const jespan_row_t *row);
JESPAN_API const char *jespan_row_file(const jespan_row_t *row);
JESPAN_API uint32_t jespan_row_line(const jespan_row_t *row);

/* The context's own labels, without those of its parents. `label->value` of an integer is its decimal digits. The texts are the
 * snapshot's. Returns 0, or EINVAL (there is no such label, or a NULL). */
JESPAN_API uint32_t jespan_row_n_labels(const jespan_row_t *row);
JESPAN_API int jespan_row_label(const jespan_row_t *row, uint32_t i, struct jespan_label *label);

/* Writes the path with all its labels, such as "request > parse {tenant=a}", cut to `bytes` with its NUL, as snprintf(3) does;
 * control characters become '?'. `buffer` may be NULL if `bytes` is 0. Returns the length of the whole path, without NUL. */
JESPAN_API size_t jespan_row_path(const jespan_snapshot_t *snapshot, const jespan_row_t *row, char *buffer, size_t bytes);

/* A figure of this context alone, and of it and all contexts below it; the latter takes time in proportion to all contexts. */
JESPAN_API uint64_t jespan_row_figure(const jespan_row_t *row, enum jespan_figure figure);
JESPAN_API uint64_t jespan_row_total(const jespan_snapshot_t *snapshot, const jespan_row_t *row, enum jespan_figure figure);

/* Finds the next context whose memory, opens or enters differ between two snapshots of this process. Times alone are no difference.
 * `change` is all zeroes before the first call. Contexts come by their numbers. No memory is needed.
 * Returns 0, ENOENT (there is no other) or EINVAL (a NULL). */
JESPAN_API int jespan_snapshot_next_change(const jespan_snapshot_t *before, const jespan_snapshot_t *after,
                                           struct jespan_snapshot_change *change);

/* By how much the figure of that context alone grew. A new context counts from 0. For a recycled one, memory in use goes to 0, and
 * all else is 0. Unknown figures are 0. */
JESPAN_API int64_t jespan_change_figure(const struct jespan_snapshot_change *change, enum jespan_figure figure);

#else

/* A snapshot without rows. */
static inline jespan_snapshot_t *jespan_snapshot_take(void)
{
    return (jespan_snapshot_t *)(uintptr_t)1;
}

static inline void jespan_snapshot_free(jespan_snapshot_t *snapshot)
{
    (void)snapshot;
}

static inline uint64_t jespan_snapshot_time_ns(const jespan_snapshot_t *snapshot)
{
    (void)snapshot;
    return 0;
}

static inline uint64_t jespan_snapshot_figure(const jespan_snapshot_t *snapshot, enum jespan_figure figure)
{
    (void)snapshot, (void)figure;
    return 0;
}

static inline const jespan_row_t *jespan_snapshot_next(const jespan_snapshot_t *snapshot, const jespan_row_t *row)
{
    (void)snapshot, (void)row;
    return NULL;
}

static inline const jespan_row_t *jespan_snapshot_find(const jespan_snapshot_t *snapshot, jespan_context_t context)
{
    (void)snapshot, (void)context;
    return NULL;
}

static inline const jespan_row_t *jespan_row_parent(const jespan_snapshot_t *snapshot, const jespan_row_t *row)
{
    (void)snapshot, (void)row;
    return NULL;
}

static inline jespan_context_t jespan_row_context(const jespan_row_t *row)
{
    (void)row;
    return 0;
}

static inline uint64_t jespan_row_id(const jespan_row_t *row)
{
    (void)row;
    return 0;
}

static inline const char *jespan_row_kind(const jespan_row_t *row)
{
    (void)row;
    return "";
}

static inline const char *jespan_row_name(const jespan_row_t *row)
{
    (void)row;
    return "";
}

static inline const char *jespan_row_target(const jespan_row_t *row)
{
    (void)row;
    return "";
}

static inline const char *jespan_row_file(const jespan_row_t *row)
{
    (void)row;
    return "";
}

static inline uint32_t jespan_row_line(const jespan_row_t *row)
{
    (void)row;
    return 0;
}

static inline uint32_t jespan_row_n_labels(const jespan_row_t *row)
{
    (void)row;
    return 0;
}

static inline int jespan_row_label(const jespan_row_t *row, uint32_t i, struct jespan_label *label)
{
    (void)row, (void)i, (void)label;
    return 22; /* EINVAL */
}

static inline size_t jespan_row_path(const jespan_snapshot_t *snapshot, const jespan_row_t *row, char *buffer, size_t bytes)
{
    (void)snapshot, (void)row;
    if (bytes)
        buffer[0] = '\0';
    return 0;
}

static inline uint64_t jespan_row_figure(const jespan_row_t *row, enum jespan_figure figure)
{
    (void)row, (void)figure;
    return 0;
}

static inline uint64_t jespan_row_total(const jespan_snapshot_t *snapshot, const jespan_row_t *row, enum jespan_figure figure)
{
    (void)snapshot, (void)row, (void)figure;
    return 0;
}

static inline int jespan_snapshot_next_change(const jespan_snapshot_t *before, const jespan_snapshot_t *after,
                                              struct jespan_snapshot_change *change)
{
    (void)before, (void)after, (void)change;
    return 2; /* ENOENT */
}

static inline int64_t jespan_change_figure(const struct jespan_snapshot_change *change, enum jespan_figure figure)
{
    (void)change, (void)figure;
    return 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif
