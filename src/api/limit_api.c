/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: the public API. */
#include <errno.h>

#include "base/compiler.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "policy/limit.h"
#include "report/limit_events.h"

EXPORT int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes)
{
    int saved = errno;
    if (hard_bytes && soft_bytes > hard_bytes)
        return EINVAL;
    if (!track_thread()) /* boots, where nothing was allocated yet */
        return ENOMEM;
    int error = limits_set(context == JESPAN_CURRENT ? jespan_current() : context, &soft_bytes, &hard_bytes);
    if (!error)
        limit_events_start(); /* without it the limit holds all the same */
    errno = saved;
    return -error;
}

EXPORT int jespan_set_limit_callback(jespan_limit_callback_t *callback, void *user)
{
    int saved = errno;
    int error = track_thread() ? limit_events_set_callback(callback, user) : -ENOMEM;
    errno = saved;
    return -error;
}
