/* SPDX-License-Identifier: BSD-2-Clause */
/* Alerts: a callback for the rules that the configuration key `alert` has, such as inuse(request)>1G. docs/alerts.md explains
 * them. The program sets no rules; mallctl's spans.alerts.* show those that there are. */
#ifndef JESPAN_ALERT_H
#define JESPAN_ALERT_H

#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

enum jespan_alert_kind {
    JESPAN_ALERT_BEGAN, /* the rule holds */
    JESPAN_ALERT_ENDED, /* it holds no more: its value is below seven eighths of the bound */
};

struct jespan_alert_event {
    uint32_t kind;            /* enum jespan_alert_kind */
    const char *rule;         /* as in the configuration; stays as long as the process */
    uint64_t bound_bytes;     /* of the rule */
    uint64_t bytes;           /* the value at this reading: bytes in use, grown by, or outlived */
    jespan_context_t context; /* the context that has most of the bytes in use or outlived; JESPAN_INVALID: none has any. It may
                               * have been recycled since the reading */
    const char *path;         /* of that context, such as "request > parse {tenant=a}", or ""; at most 159 bytes; lives as long
                               * as the call */
    uint64_t context_bytes;   /* what that context has in use, or outlived */
};

/* Called on a thread of jespan's own in this process, "jespan:alert", one event after another, with no lock held, at most
 * reading_interval_ms after a rule begins or ceases to hold. What comes and goes between two readings is not told. The line on
 * stderr and the dump of the same reading come before the call.
 *
 * The callback may allocate, free, and use spans, limits, mallctl, reporters and locks of the program. Its allocations are credited
 * to "(jespan)", which no rule counts. It has 256 KiB of stack, takes no signals, and must return: until then no rule is evaluated
 * here. It must not call jespan_set_alert_callback() or exit(), fork without exec, or wait for a thread that waits for an event.
 * Later versions may add members to `event`. */
typedef void jespan_alert_callback_t(const struct jespan_alert_event *event, void *user);

#ifndef JESPAN_DISABLE

/* Tells `callback` of events from now on, with `user`. Rules that hold already are told at the next reading. NULL: nobody is told.
 * When this returns, the former callback does not run any more.
 *
 * With a sidecar (`jespan run`), the sidecar writes lines and dumps and has the metrics. The call then starts the thread in this
 * process, for the callback alone, which takes a snapshot every reading_interval_ms. The two read at different times, so either may
 * see a moment that the other does not. Rules of `jespan serve --alert` are unknown to the process: they call no callback.
 *
 * A forked child keeps the callback, but is told only with follow_fork. At exit, calls end after the program's own handlers of
 * atexit() have run.
 *
 * Returns 0 (also if there are no rules), EDEADLK (called in the callback), ENOMEM, or the error of starting a thread; nothing is
 * changed then. Any thread; not in a signal handler. */
JESPAN_API int jespan_set_alert_callback(jespan_alert_callback_t *callback, void *user);

#else

/* Nobody is told. */
static inline int jespan_set_alert_callback(jespan_alert_callback_t *callback, void *user)
{
    (void)callback, (void)user;
    return 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif
