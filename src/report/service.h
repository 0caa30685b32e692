/* SPDX-License-Identifier: BSD-2-Clause */
/* A service: a module with a thread of its own that delivers what jespan knows for as long as the program runs.
 *
 * The module `NAME` is the shared object NAME.so in the module directory and defines one symbol, `jespan_service_NAME`.
 * It is opened with dlopen(RTLD_LOCAL), as exporters are. Its thread takes no signals, has 256 KiB of stack and is credited
 * to "(jespan)", as are threads that it makes itself; no lock of jespan's is held. A service ends by returning from run().
 *
 * A forked child has none, or with follow_fork its own: run() is called anew there, in memory that is as the parent's
 * thread left it at any point. So run() makes everything afresh, and leaves what it finds alone.
 */
#ifndef JESPAN_SERVICE_H
#define JESPAN_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "snapshot/snapshot.h"

#define SERVICE_ABI 1

/* Figures of the services, which they write and mallctl shows as spans.stats.SERVICE.NAME; also of those that do not
 * run. Each has one writer. */
#define PYROSCOPE_STATS(ROW)                                                                                           \
    ROW(pushes)           /* profiles that the server accepted */                                                      \
    ROW(pushed_bytes)     /* of requests that it accepted, as sent */                                                  \
    ROW(failures)         /* attempts that failed, for whatever reason */                                              \
    ROW(rejected)         /* of them, those that the server refused for good (4xx) */                                  \
    ROW(uncertain)        /* of the failures, those after which the server may have the figures all the same */            \
    ROW(dropped)          /* of them, those after which nothing was sent again: pyroscope_uncertain:drop */                \
    ROW(merged)           /* periods that lost their own time: their figures went into the next one */                 \
    ROW(folded)           /* contexts whose figures went to another sample, as there were too many; summed over pushes */ \
    ROW(queue_length)     /* periods that wait */                                                                      \
    ROW(queue_bytes)      /* what they take */                                                                         \
    ROW(last_status)      /* HTTP status of the last attempt; 0: there was no answer */                                \
    ROW(last_latency_ns)  /* how long the last attempt took */                                                         \
    ROW(last_success_s)   /* when the server last accepted a profile, in seconds since 1970; 0: never */
#define HTTP_STATS(ROW)                                                                                                \
    ROW(requests)         /* answered with a status below 400 */                                                       \
    ROW(errors)           /* answered with another, or closed before there was an answer */                            \
    ROW(sent_bytes)       /* of bodies */                                                                              \
    ROW(folded)           /* series left out of /metrics, as there were too many; summed over calls */

#define SERVICE_STAT(name) _Atomic uint64_t name;
struct pyroscope_stats {
    PYROSCOPE_STATS(SERVICE_STAT)
    _Atomic(const char *) last_error; /* of the last attempt; NULL: it succeeded, or there was none. Stays for good */
};
struct http_stats {
    HTTP_STATS(SERVICE_STAT)
};

/* What jespan does for a service. All of it from the service's threads only. */
struct service_host {
    const struct conf *conf;
    struct pyroscope_stats *pyroscope;
    struct http_stats *http;

    /* A snapshot of this moment, in the memory of `old` (or NULL), which is gone then. It may wait for another reader's;
     * then it makes the caller wait for as long as it took. NULL: no memory, and `old` is as it was. */
    struct snapshot *(*snapshot)(struct snapshot *old);
    void (*free_snapshot)(struct snapshot *s);

    int (*mallctl)(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);

    /* In a forked child, the moment of the fork: what came before was the parent's to tell. Otherwise NULL. run() frees it. */
    struct snapshot *base;

    /* A line on stderr, of the parts up to NULL. */
    void (*say)(const char *const *parts);

    /* Becomes readable when the service is to end. To be waited for, never read. */
    int stop_fd;

    /* False: the program has closed all descriptors, those of the service among them, and their numbers may be its own files'
     * by now, so nothing may be done to them, not even to close them. To be asked after each sleep, and before a library is
     * called that uses descriptors. renew() gives the service a new stop_fd then; it returns 0 or a negative errno. */
    bool (*has_descriptors)(const struct service_host *host);
    int (*renew)(const struct service_host *host);

    /* 0 while the service is to go on; then the time on CLOCK_MONOTONIC by which it must have ended, whatever it has left
     * to do. */
    uint64_t (*stop_by_ns)(const struct service_host *host);

    /* Between guard(true) and guard(false) fork() waits, for a moment: a library's own locks would stay locked in the
     * child, where the program may want to use that library too. For calls that do not block. */
    void (*guard)(bool begin);

    /* The process ends when handlers given to atexit() so far may have to run after the service: call it when what the
     * service uses has registered its own. */
    void (*end_before_others)(void);
};

struct service {
    uint32_t abi; /* SERVICE_ABI */
    const char *name;

    /* While the program starts, before there is a thread: what a process must not end in the middle of. A forked child has
     * it from its parent. Returns 0 or a negative errno. NULL: nothing. */
    int (*prepare)(const struct service_host *host);

    /* The service, on its thread. Returns 0, or a negative errno when it cannot begin or go on, which is said on stderr
     * with `name` unless it was -ECANCELED: then run() said more itself. */
    int (*run)(const struct service_host *host);
};

#define SERVICE_DEFINE(name_) __attribute__((visibility("default"))) extern const struct service jespan_service_##name_

#endif
