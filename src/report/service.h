/* SPDX-License-Identifier: BSD-2-Clause */
/* A service: a module with its own thread that delivers jespan's figures while the program runs.
 *
 * The module `NAME` is the shared object NAME.so in the module directory and defines one symbol,
 * `jespan_service_NAME`. Like exporters, it is opened with dlopen(RTLD_LOCAL). Its thread takes no signals and has 256
 * KiB of stack. Its memory counts for "(jespan)", as does that of threads that it starts. jespan calls it with no lock
 * held. A service ends when run() returns.
 *
 * A forked child has no services without follow_fork. With it, run() is called again in the child, in memory that the
 * parent's thread left at any point. So run() initialises everything and ignores what it finds.
 */
#ifndef JESPAN_SERVICE_H
#define JESPAN_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "conf/conf.h"
#include "snapshot/event_reader.h"
#include "snapshot/snapshot.h"

#define SERVICE_ABI 11
#define SERVICE_NAME_BYTES 32

/* Figures of the services. The service writes them, mallctl shows them as spans.stats.SERVICE.NAME. They are 0 if the
 * service does not run. Each figure has one writer. */
#define PUSH_STATS(ROW)                                                                                           \
    ROW(pushes)          /* profiles that the server accepted */                                                       \
    ROW(pushed_bytes)    /* bytes of accepted requests, as sent */                                                     \
    ROW(failures)        /* attempts that failed for any reason */                                                     \
    ROW(rejected)        /* failures that the server refused for good (4xx), and pushes that it accepted only in part */ \
    ROW(uncertain)       /* failures after which the server may still have the figures */                              \
    ROW(dropped)         /* uncertain failures without another attempt: pyroscope_uncertain:drop */                    \
    ROW(merged)          /* periods whose figures went into the next period */                                         \
    ROW(folded)          /* contexts whose figures went to another sample, because there were too many; over pushes */ \
    ROW(queue_length)    /* periods in the queue */                                                                    \
    ROW(queue_bytes)     /* bytes of the queue */                                                                      \
    ROW(last_status)     /* HTTP status of the last attempt; 0: no answer */                                           \
    ROW(last_latency_ns) /* time that the last attempt took */                                                         \
    ROW(last_success_s)  /* when the server last accepted a profile, in seconds since 1970; 0: never */
#define HTTP_STATS(ROW)                                                                                                \
    ROW(requests)        /* answers with a status below 400 */                                                         \
    ROW(errors)          /* other answers, and connections that closed without an answer */                            \
    ROW(sent_bytes)      /* bytes of bodies */                                                                         \
    ROW(folded)          /* series left out of /metrics, because there were too many; summed over requests */

#define SERVICE_STAT(name) _Atomic uint64_t name;
struct push_stats {
    PUSH_STATS(SERVICE_STAT)
    _Atomic(const char *) last_error; /* of the last attempt; NULL: it succeeded, or there was none. Never freed */
};
struct http_stats {
    HTTP_STATS(SERVICE_STAT)
};

/* A process that the sidecar serves. */
struct service_process {
    pid_t pid;
    char name[SERVICE_NAME_BYTES];
    uint64_t inuse_bytes; /* when it was last read */
};

/* What people do not want to see of a stack: functions that allocate for their caller, those of libc that start a thread, and below a
 * function of a script those that only carry its calls. */
enum service_role { SERVICE_UNNAMED, SERVICE_OTHER, SERVICE_ALLOCATES, SERVICE_STARTS, SERVICE_SCRIPT, SERVICE_CARRIES };

/* A function at a place in its source. */
struct service_function {
    const char *name, *file; /* valid UTF-8; file: "" where it is not known */
    uint32_t line;           /* 0: not known */
    enum service_role role;
};

/* A call in a binary. */
struct service_call {
    const char *path;  /* of the binary, as the host opens it; "[vdso]"; NULL: there is none, and no names */
    const char *build_id; /* of the binary, in hexadecimal digits; "": it has none */
    uint64_t identity; /* differs between two files with the same path */
    uint64_t offset;   /* in the file */
    /* name_calls() sets these: the function that the call is in, then those that were inlined there. */
    const struct service_function *functions;
    uint32_t n_functions; /* 0: nothing is known */
};

/* The functions and data that jespan has for a service. Only the threads of the service may use it. The service runs in
 * the program, or in the sidecar, a process of its own that reads the program's books (src/sidecar). */
struct service_host {
    const struct conf *conf;
    pid_t pid;           /* the program's */
    const char *program; /* its name */
    struct push_stats *pyroscope, *otlp;
    struct http_stats *http;

    /* A new snapshot, which reuses and ends `old` (or NULL). It may wait for the snapshots of others, and pauses for
     * as long as it took. NULL: no memory, and `old` is to be freed or given again. */
    struct snapshot *(*snapshot)(struct snapshot *old);
    void (*free_snapshot)(struct snapshot *s);

    /* Gives the events of the process that are new since the last call to the sink. Returns 0 or a negative errno: ESRCH,
     * ENOENT: the process has ended, or has executed another program. */
    int (*events)(const struct service_host *host, struct event_sink *sink);

    /* In the sidecar, which serves several processes. NULL in the program. processes() writes at most `room` of them, the
     * first served first, and returns how many there are. choose() has snapshot() show that process on this thread from
     * now on (0: the first). It returns false if the process is not served. */
    size_t (*processes)(struct service_process *all, size_t room);
    bool (*choose)(pid_t pid);

    /* In the sidecar: names calls, as far as it has names. Names of the others are looked for in the background; it returns
     * how many these are. Texts are valid until end_names(), which is called once for each call. NULL in the program, which reads
     * no debug information. Any thread. */
    size_t (*name_calls)(struct service_call *calls, size_t n);
    void (*end_names)(void);

    int (*mallctl)(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);

    /* In a forked child, a snapshot of the fork: the parent reports everything before it. Otherwise NULL. run() frees
     * it. */
    struct snapshot *base;

    /* Writes a line to stderr, made of the parts up to NULL. */
    void (*say)(const char *const *parts);

    /* Becomes readable when the service must end. The service polls it and never reads it. */
    int stop_fd;

    /* False: the program has closed all descriptors, also those of the service. Their numbers may belong to the
     * program's files now, so the service must not use or close them. The service asks after each sleep, and before it
     * calls a library that uses descriptors. renew() then gives it a new stop_fd, and returns 0 or a negative errno. */
    bool (*has_descriptors)(const struct service_host *host);
    int (*renew)(const struct service_host *host);

    /* 0 while the service shall go on. Otherwise the time on CLOCK_MONOTONIC by which it must have ended. */
    uint64_t (*stop_by_ns)(const struct service_host *host);

    /* fork() waits between guard(true) and guard(false), for 200 ms at most. Without it, the locks of a library could
     * stay locked in the child, where the program may use that library too. Only for calls that do not block. */
    void (*guard)(bool begin);

    /* Has the service end, at exit, before all handlers of atexit() that are registered now. To be called when the
     * libraries of the service have registered theirs. */
    void (*end_before_others)(void);
};

struct service {
    uint32_t abi; /* SERVICE_ABI */
    const char *name;

    /* Runs before the thread starts, while the program starts: work that a process must not end in the middle of. A
     * forked child inherits its result. Returns 0 or a negative errno. NULL: nothing to do. */
    int (*prepare)(const struct service_host *host);

    /* The service, on its thread. Returns 0, or a negative errno if it cannot begin or go on. jespan writes the error
     * to stderr, except -ECANCELED: run() has written a better message then. */
    int (*run)(const struct service_host *host);
};

#define SERVICE_DEFINE(name_) __attribute__((visibility("default"))) extern const struct service jespan_service_##name_

#endif
