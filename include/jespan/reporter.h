/* SPDX-License-Identifier: BSD-2-Clause */
/* Reporters: code of yours that jespan tells, at an interval, what each span did since the last time.
 *
 * "Span" means a context here: the path of sites and labels from the root, whose figures are those of all spans opened
 * there. Each reporter has a thread of its own, which makes all its calls, one after another: a slow one delays
 * nobody but itself. The thread takes no signals, has 256 KiB of stack, and what it allocates is credited to
 * "(jespan)". No lock of jespan's is held during a call, so a callback may use malloc, spans, mallctl and the functions
 * below, unless said otherwise. A process forked in a callback must call exec or _exit there.
 *
 * In a round, the reporter is told, in this order: the spans that are gone, children before parents; the new ones,
 * parents before children; for each span whose figures changed, how; and at last to flush. Of a span it hears
 * span_opened first and span_closed last. Figures are a span's own, without the spans below it. The first round
 * contains what happened since the program began. Differences are never negative, and all that were told so far add
 * up to what the program did (spans.all.*): counts exactly, times to a millionth, as the clock is measured better while
 * the program runs.
 */
#ifndef JESPAN_PUBLIC_REPORTER_H
#define JESPAN_PUBLIC_REPORTER_H

#include <stddef.h>
#include <stdint.h>

#include <jespan/jespan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a span is. It and its strings stay where they are from span_opened() until span_closed() has returned; those
 * of spans that are not closed, until shutdown() has returned. Strings are never NULL.
 *
 * Of kind "retired" is one span, with the id 0. A span is closed when jespan needs its number for another (see
 * max_contexts): it was closed by the program and holds no memory. What it did since the round before, and what spans
 * did that came and went between two rounds, is told of "(retired)". */
struct jespan_span_info {
    uint64_t id;                            /* never used again in this process; its low half is the context's number */
    const struct jespan_span_info *parent;  /* NULL: this is the root */
    const char *kind;                       /* "root", "jespan", "thread", "span" or "retired" */
    const char *name, *target, *file;       /* "" where unknown */
    uint32_t line;                          /* 0 where unknown */
    uint32_t n_labels;
    const struct jespan_label *labels;      /* its own, without its parents'; of an integer, `value` is it in decimal */
};

/* Since the last call for this span, in nanoseconds. CPU time is that of all threads in the span; system_ns, the part
 * in the kernel, is 0 where the clock does not tell it (cpu_clock). user_ns is the rest. */
struct jespan_cpu {
    uint64_t cpu_ns, user_ns, system_ns;
};

/* Since the last call for this span. wall_ns is the time that it was open, less that of spans below it; busy_ns the
 * time that threads were in it; idle_ns what of wall_ns was not busy. Where spans below it overlap, the total of wall_ns can
 * shrink; what was told of it then stays, and 0 is told until it has caught up. */
struct jespan_wall {
    uint64_t opens, enters;
    uint64_t wall_ns, busy_ns, idle_ns;
};

/* Since the last call for this span. Bytes are usable bytes, but for those requested. Moved objects are those that
 * jespan_retag() gave another owner. */
struct jespan_allocations {
    uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes;
    uint64_t free_objects, free_bytes;
    uint64_t moved_in_objects, moved_in_bytes;
    uint64_t moved_out_objects, moved_out_bytes;
};

/* Live now, credited to this span. */
struct jespan_heap {
    uint64_t inuse_objects, inuse_bytes;
};

/* A reporter. Any callback may be NULL; each gets `user`. Members may be added at the end in later versions, likewise
 * to the structures above. */
struct jespan_reporter {
    size_t size;      /* sizeof(struct jespan_reporter) */
    const char *name; /* for messages and the thread; cut to 31 bytes */
    void *user;

    /* Before all else. Returns 0 or a negative errno, which is said on stderr and ends the reporter. */
    int (*init)(void *user);

    void (*span_opened)(void *user, const struct jespan_span_info *span);
    void (*span_closed)(void *user, const struct jespan_span_info *span);

    /* Only for spans where anything changed. */
    void (*cpu)(void *user, const struct jespan_span_info *span, const struct jespan_cpu *since_last);
    void (*wall)(void *user, const struct jespan_span_info *span, const struct jespan_wall *since_last);
    void (*allocations)(void *user, const struct jespan_span_info *span, const struct jespan_allocations *since_last);
    void (*heap)(void *user, const struct jespan_span_info *span, const struct jespan_heap *now);

    /* The round is over. Returns 0 or a negative errno, also for what failed in the callbacks above. Failures are
     * counted (spans.stats.reporter_errors), the first of a row is said on stderr, and the next round comes as ever. */
    int (*flush)(void *user);

    /* After the last flush: nothing is called any more. */
    void (*shutdown)(void *user);
};

/* Names a registered reporter. Never dereference it. */
typedef struct jespan_registration jespan_registration_t;

#define JESPAN_MAX_REPORTERS 16

/* Starts a reporter, with a round every `interval_ms` milliseconds; 0: only for jespan_flush_reporters() and at the
 * end. Rounds that come due while one is under way are left out and counted (spans.stats.reporter_misses). `reporter` and
 * its name are copied; what `user` and the callbacks point to must stay until shutdown() has returned. Does not wait
 * for init(). A forked child does not have this reporter.
 * Returns a handle for jespan_unregister_reporter(), or NULL with errno: EINVAL (no name, or a size that this version
 * does not know), ENOSPC (JESPAN_MAX_REPORTERS there already), ENOMEM, EAGAIN (no thread), ESHUTDOWN (the program is at
 * its end). Any thread, not in a signal handler. */
JESPAN_API jespan_registration_t *jespan_register_reporter(const struct jespan_reporter *reporter,
                                                           uint64_t interval_ms);

/* Ends a reporter with a last round and shutdown(), and waits for that at most shutdown_timeout_ms.
 * Returns 0: nothing of it is called any more; EINVAL: not registered, or no longer; ETIMEDOUT: a callback is
 * still busy, and the reporter ends after it; EDEADLK: called in a reporter's callback. Any thread, not in a signal handler. */
JESPAN_API int jespan_unregister_reporter(jespan_registration_t *registration);

/* Has every reporter make a round now, and waits for all of them. What other threads do meanwhile may be in it or not.
 * Returns 0, ETIMEDOUT or EDEADLK (called in a reporter's callback). Any thread, not in a signal handler. */
JESPAN_API int jespan_flush_reporters(uint64_t timeout_ms);

/* A module NAME.so in module_dir, named in the configuration key `reporters`, defines this; see docs/reporters.md. */
#define JESPAN_REPORTER(name) JESPAN_API extern const struct jespan_reporter jespan_reporter_##name

#ifdef __cplusplus
}
#endif

#endif
