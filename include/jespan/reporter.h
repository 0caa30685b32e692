/* SPDX-License-Identifier: BSD-2-Clause */
/* Reporters: callbacks of a program, to which jespan tells at an interval how the figures of each span changed.
 * docs/reporters.md explains them.
 *
 * A "span" is a context here: the path of sites and labels from the root, with the figures of all spans that were
 * opened there. Each reporter has a thread of its own, which makes all its calls, one after another. A slow reporter
 * delays only itself. The thread takes no signals and has 256 KiB of stack; its allocations are credited to "(jespan)".
 * No lock of jespan's is held during a call, so a callback may use malloc, spans, mallctl and, unless they say
 * otherwise, the functions below. A process that is forked in a callback must call exec or _exit there.
 *
 * A round makes its calls in this order: span_closed for spans that are gone, children before parents; span_opened for
 * new spans, parents before children; cpu, wall, allocations and heap for spans whose figures changed; and at last
 * flush. span_opened is the first call for a span, and span_closed the last. Figures are those of a span alone, without
 * the spans below it. The first round contains everything since the program began. Differences are never negative. All
 * differences that were told add up to the figures of the program (spans.all.*): counts exactly, times to a millionth,
 * as the clock is measured better while the program runs.
 */
#ifndef JESPAN_REPORTER_H
#define JESPAN_REPORTER_H

#include <stddef.h>
#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A span. The structure and its strings stay in place from span_opened() until span_closed() has returned; those of
 * spans that are not closed, until shutdown() has returned. Strings are never NULL.
 *
 * One span, with the id 0, is of kind "retired". A span is closed when jespan needs its number for another span (see
 * max_contexts): the program closed it, and it holds no memory. The changes of its figures since the last round are
 * told for "(retired)". So are the figures of spans that came and went between two rounds. */
struct jespan_span_info {
    uint64_t id;                            /* never used again in this process; its low half is the context's number */
    const struct jespan_span_info *parent;  /* NULL: this is the root */
    const char *kind;                       /* "root", "jespan", "thread", "span" or "retired" */
    const char *name, *target, *file;       /* "" where unknown */
    uint32_t line;                          /* 0 where unknown */
    uint32_t n_labels;
    const struct jespan_label *labels;      /* without those of its parents; `value` of an integer is its decimal digits */
};

/* CPU time since the last call for this span, in nanoseconds, of all threads in the span. user_ns and system_ns are its
 * parts. With cpu_clock:rusage they are told when a thread enters or leaves a span, later than cpu_ns. Other clocks do
 * not tell the parts apart: user_ns is cpu_ns then, and system_ns is 0. */
struct jespan_cpu {
    uint64_t cpu_ns, user_ns, system_ns;
};

/* Since the last call for this span, times in nanoseconds. wall_ns is the time that it was open, less that of spans
 * below it; busy_ns the time that threads were in it; idle_ns the part of wall_ns that was not busy. Where spans below
 * it overlap, the sum of wall_ns can shrink. The time that was told stays, and 0 is told until the sum has caught
 * up. */
struct jespan_wall {
    uint64_t opens, enters;
    uint64_t wall_ns, busy_ns, idle_ns;
};

/* Since the last call for this span. Bytes are usable bytes, except requested bytes. jespan_credit() credited the objects of
 * credited_in to this span, and those of credited_out to another. */
struct jespan_allocations {
    uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes;
    uint64_t free_objects, free_bytes;
    uint64_t credited_in_objects, credited_in_bytes;
    uint64_t credited_out_objects, credited_out_bytes;
};

/* Live now, credited to this span. */
struct jespan_heap {
    uint64_t inuse_objects, inuse_bytes;
};

/* A reporter. Any callback may be NULL. Each gets `user`, which stays the program's. Later versions may add members at the end, also to
 * the structures above. */
struct jespan_reporter {
    size_t size;      /* sizeof(struct jespan_reporter) */
    const char *name; /* for messages and the thread; cut to 31 bytes */
    void *user;

    /* The first call. Returns 0 or a positive errno value, which is written to stderr and ends the reporter. */
    int (*init)(void *user);

    void (*span_opened)(void *user, const struct jespan_span_info *span);
    void (*span_closed)(void *user, const struct jespan_span_info *span);

    /* Called for spans with changes only. The structures live as long as the call. */
    void (*cpu)(void *user, const struct jespan_span_info *span, const struct jespan_cpu *since_last);
    void (*wall)(void *user, const struct jespan_span_info *span, const struct jespan_wall *since_last);
    void (*allocations)(void *user, const struct jespan_span_info *span, const struct jespan_allocations *since_last);
    void (*heap)(void *user, const struct jespan_span_info *span, const struct jespan_heap *now);

    /* The round is over. Returns 0 or a positive errno value, also for failures of the callbacks above. Failures are
     * counted (spans.stats.reporter_errors), the first of several in a row is written to stderr, and the next round comes as usual. */
    int (*flush)(void *user);

    /* The last call, after the last flush. */
    void (*shutdown)(void *user);
};

/* A handle of a registered reporter. Never dereference it. */
typedef struct jespan_registration jespan_registration_t;

#define JESPAN_MAX_REPORTERS 16

#ifndef JESPAN_DISABLE

/* Starts a reporter, with a round every `interval_ms` milliseconds; with 0, only for jespan_flush_reporters() and at
 * the end. Rounds that come due during a round are left out and counted (spans.stats.reporter_misses). `reporter` and
 * its name are copied. The data of `user` and of the callbacks must stay valid until shutdown() has returned. Does not
 * wait for init(). A forked child does not have this reporter.
 * Returns a handle for jespan_unregister_reporter(). Returns NULL with errno EINVAL (no name, or a size that this
 * version does not know), ENOSPC (there are JESPAN_MAX_REPORTERS), ENOMEM, EAGAIN (no thread) or ESHUTDOWN (the program
 * is ending). Any thread; not in a signal handler. */
JESPAN_API jespan_registration_t *jespan_register_reporter(const struct jespan_reporter *reporter,
                                                           uint64_t interval_ms);

/* Ends a reporter with a last round and shutdown(), and waits for that for at most shutdown_timeout_ms.
 * Returns 0 (none of its callbacks is called any more), EINVAL (not registered, or no longer), ETIMEDOUT (a callback is
 * running, and the reporter ends after it) or EDEADLK (called in a reporter's callback). Any thread; not in a signal handler. */
JESPAN_API int jespan_unregister_reporter(jespan_registration_t *registration);

/* Has every reporter make a round now, and waits for all of them for at most `timeout_ms` milliseconds. The round
 * contains all changes before the call, and perhaps changes that other threads make meanwhile.
 * Returns 0, ETIMEDOUT or EDEADLK (called in a reporter's callback). Any thread; not in a signal handler. */
JESPAN_API int jespan_flush_reporters(uint64_t timeout_ms);

#else

/* Nothing is reported. */
static inline jespan_registration_t *jespan_register_reporter(const struct jespan_reporter *reporter, uint64_t interval_ms)
{
    (void)reporter, (void)interval_ms;
    return (jespan_registration_t *)(uintptr_t)1;
}

static inline int jespan_unregister_reporter(jespan_registration_t *registration)
{
    (void)registration;
    return 0;
}

static inline int jespan_flush_reporters(uint64_t timeout_ms)
{
    (void)timeout_ms;
    return 0;
}

#endif

/* Declares the reporter of a module: NAME.so in module_dir, which the configuration key `reporters` lists. docs/reporters.md has
 * an example. */
#define JESPAN_REPORTER(name) JESPAN_API extern const struct jespan_reporter jespan_reporter_##name

#ifdef __cplusplus
}
#endif

#endif
