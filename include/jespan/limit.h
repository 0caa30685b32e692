/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: how many bytes a context, with all that is below it, may have in use.
 *
 * Beyond the *hard* limit, malloc and the like return NULL with ENOMEM in those contexts, operator new throws
 * std::bad_alloc, and nobody else is touched (on_limit has other choices). Beyond the *soft* limit somebody is told.
 * Where limits stand one above the other, all of them hold. What counts is usable bytes that are live, whichever
 * thread frees them. jespan_retag() into a context fails where its limits do not admit the object. What jespan allocates
 * itself is never refused.
 *
 * In use never exceeds a hard limit, but by what was in use when it was set, or was being allocated then; and a request
 * is refused only where there is no room for it: docs/limits.md. */
#ifndef JESPAN_PUBLIC_LIMIT_H
#define JESPAN_PUBLIC_LIMIT_H

#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the limits of a context (JESPAN_CURRENT, JESPAN_ROOT for the whole process, or a number from
 * jespan_current()), in bytes; 0: none. They hold from the next allocation on, also for threads that are inside. The
 * context stays until both are 0 again. What is in use already stays as it is, also beyond the limit. Returns 0,
 * EINVAL (no such context, or one of jespan's own, or of spans that a sampler left out; soft above hard), ENOSPC
 * (max_limits) or ENOMEM. errno is left alone. Any thread; not from a signal handler. */
JESPAN_API int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes);

enum jespan_limit_kind {
    JESPAN_LIMIT_SOFT,         /* in use has come beyond the soft limit */
    JESPAN_LIMIT_SOFT_CLEARED, /* and is less than seven eighths of it again: the next crossing will be told */
    JESPAN_LIMIT_HARD,         /* allocations were refused; at most once a second for each limit */
};

struct jespan_limit_event {
    uint32_t kind; /* enum jespan_limit_kind */
    jespan_context_t context;
    const char *path;     /* as "request{tenant=a};parse"; the last 255 bytes; lives as long as the call does */
    uint64_t limit_bytes; /* the one of that kind */
    uint64_t inuse_bytes; /* at the time of the event */
    uint64_t refusals;    /* since the last event of this kind */
};

/* Called on a thread of jespan's own, one event after another, with no lock held: malloc has returned NULL by then,
 * or the memory is in use. It may allocate, free and use spans, limits, mallctl, reporters and locks of the
 * program's; what it allocates is credited to "(jespan)", which has no limit. It has 256 KiB of stack and must
 * return; it must not call jespan_set_limit_callback(), fork without exec, or wait for a thread that waits for an
 * event. While it runs, events of a limit are put together. `event` may have more members in later versions. */
typedef void jespan_limit_callback_t(const struct jespan_limit_event *event, void *user);

/* From now on `callback` is told of events, in place of a line on stderr (which hard limits give only with
 * on_limit:event and on_limit:dump). NULL: the latter again. When it returns, the former callback is not running any
 * more. Returns 0, EDEADLK (called from within a callback), or another errno value where no thread can be started,
 * and nothing is changed. */
JESPAN_API int jespan_set_limit_callback(jespan_limit_callback_t *callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
