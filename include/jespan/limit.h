/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: how many bytes a context, with all contexts below it, may have in use. docs/limits.md explains them.
 *
 * Above the *hard* limit, malloc and the like return NULL with ENOMEM in those contexts, operator new throws
 * std::bad_alloc, and other contexts do not notice (on_limit has other choices). Above the *soft* limit a callback is
 * told. Where limits stand one above the other, each of them must admit an allocation. Usable bytes that are live
 * count, whichever thread frees them. jespan_credit() to a context fails where its limits do not admit the object.
 * jespan's own allocations are never refused.
 *
 * Memory in use never exceeds a hard limit, except by memory that was in use, or was being allocated, when the limit
 * was set. A request is refused only where there is no room for it. */
#ifndef JESPAN_LIMIT_H
#define JESPAN_LIMIT_H

#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

enum jespan_limit_kind {
    JESPAN_LIMIT_SOFT,         /* memory in use has exceeded the soft limit */
    JESPAN_LIMIT_SOFT_CLEARED, /* it is below seven eighths of the soft limit again: the next crossing will be told */
    JESPAN_LIMIT_HARD,         /* allocations were refused; at most once a second for each limit */
};

struct jespan_limit_event {
    uint32_t kind; /* enum jespan_limit_kind */
    jespan_context_t context;
    const char *path;     /* such as "request{tenant=a};parse"; the last 255 bytes; lives as long as the call */
    uint64_t limit_bytes; /* the limit of that kind */
    uint64_t inuse_bytes; /* at the time of the event */
    uint64_t refusals;    /* since the last event of this kind */
};

/* Called on a thread of jespan's own, one event after another, with no lock held. By then malloc has returned NULL, or
 * the memory is in use. The callback may allocate, free, and use spans, limits, mallctl, reporters and locks of the
 * program. Its allocations are credited to "(jespan)", which has no limit. It has 256 KiB of stack and must return. It
 * must not call jespan_set_limit_callback(), fork without exec, or wait for a thread that waits for an event. While it
 * runs, further events of a limit are merged. Later versions may add members to `event`. */
typedef void jespan_limit_callback_t(const struct jespan_limit_event *event, void *user);

#ifndef JESPAN_DISABLE

/* Sets the limits of a context in bytes; 0 is no limit. JESPAN_ROOT stands for the whole process. The limits hold from the next
 * allocation on, also for threads that are in the context already. The context stays until both limits are 0 again. Memory in use
 * stays in use, also above the limit.
 * Returns 0, EINVAL (no such context; one of jespan's own, or of spans that a sampler left out; or soft above hard), ENOSPC
 * (max_limits) or ENOMEM. Any thread; not in a signal handler. */
JESPAN_API int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes);

/* Tells `callback` of events from now on, with `user`, in place of a line on stderr (which hard limits give only with
 * on_limit:event and on_limit:dump). NULL restores that line. When this returns, the former callback does not run any more.
 * Returns 0, EDEADLK (called in a callback), ENOMEM, or the error of starting a thread; nothing is changed then. Any thread; not in a
 * signal handler. */
JESPAN_API int jespan_set_limit_callback(jespan_limit_callback_t *callback, void *user);

#else

/* Nothing is limited. */
static inline int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes)
{
    (void)context, (void)soft_bytes, (void)hard_bytes;
    return 0;
}

static inline int jespan_set_limit_callback(jespan_limit_callback_t *callback, void *user)
{
    (void)callback, (void)user;
    return 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif
