/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan: which span holds the memory. The span API. docs/spans.md explains it with examples.
 *
 * A *site* describes a span in the source. A *span* is one open instance of a site. It is opened once, entered and exited any
 * number of times on any thread, and closed once. A *context* is the path of sites and labels from the root. Each allocation is
 * credited to the context that is current when it is made, whichever thread frees the memory later.
 *
 * Conventions of all public headers:
 *
 * - Functions that return int return 0 or a positive errno value, and leave errno alone. Functions that return a handle or a
 *   context return NULL or JESPAN_INVALID on failure, and set errno. Macros do nothing on failure.
 * - Any thread may call any function at any time, also before main and in destructors. No signal handler may, except where a
 *   function says so. A function never ends the program, and a wrong argument changes nothing.
 * - Pointers that are handed in stay the caller's: jespan copies what it keeps. Strings are NUL-terminated.
 * - With JESPAN_DISABLE defined, macros become empty statements whose arguments are not evaluated, and functions become empty
 *   inline functions that return success. The program then needs no library. Memory that a region would free stays allocated,
 *   and limits do not hold.
 */
#ifndef JESPAN_JESPAN_H
#define JESPAN_JESPAN_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. The value of mallctl's "spans.version" is the version of the library, as "1.2.3". A new major version
 * may change or remove names, a new minor version only adds some. */
#define JESPAN_VERSION_MAJOR 0
#define JESPAN_VERSION_MINOR 1
#define JESPAN_VERSION_PATCH 0

/* From C11 and C++11 on, the macros below check while the program is compiled that a string is a string, and that an integer is
 * not a pointer. */
#define JESPAN_NO_STRING_ "jespan: this is not a string; for an integer there are JESPAN_WITH() and JESPAN_LABEL_INT()"
#define JESPAN_NO_INTEGER_ "jespan: this is not an integer"
#define JESPAN_NO_VALUE_ "jespan: a label has no value: JESPAN() takes a name, then pairs of a key and a value"
#define JESPAN_NO_CONTEXT_ "jespan: this is not the number of a context, which jespan_current() returns"
#define JESPAN_NO_SITE_ "jespan: this is not the address of a struct jespan_site"
#if !defined __cplusplus && __STDC_VERSION__ >= 201112L
#define JESPAN_ASSERT_(condition, message) _Static_assert(condition, message)
#define JESPAN_IF_(condition, message, value)                                                                          \
    __builtin_choose_expr(__extension__ sizeof(struct { _Static_assert(condition, message); char any; }) != 0, value, 0)
#define JESPAN_IS_STRING_(s)                                                                                           \
    __extension__ _Generic((s), char *: 1, const char *: 1, signed char *: 1, const signed char *: 1, unsigned char *: 1,            \
             const unsigned char *: 1, void *: 1, const void *: 1, default: 0)
#define JESPAN_IS_SITE_(s) _Generic((s), struct jespan_site *: 1, const struct jespan_site *: 1, void *: 1, default: 0)
#define JESPAN_IS_POINTER_(n) (__builtin_classify_type(n) == 5)
#define JESPAN_STRING_(s) JESPAN_IF_(JESPAN_IS_STRING_(s), JESPAN_NO_STRING_, (s))
#define JESPAN_INTEGER_(n) JESPAN_IF_(!JESPAN_IS_POINTER_(n), JESPAN_NO_INTEGER_, (int64_t)(n))
#define JESPAN_CONTEXT_(n) JESPAN_IF_(!JESPAN_IS_POINTER_(n), JESPAN_NO_CONTEXT_, (n))
#define JESPAN_SITE_ADDRESS_(s) JESPAN_IF_(JESPAN_IS_SITE_(s), JESPAN_NO_SITE_, (s))
#elif defined __cplusplus && __cplusplus >= 201103L
#define JESPAN_ASSERT_(condition, message) static_assert(condition, message)
extern "C++" {
template <class T, class To> struct jespan_becomes_ {
    static char test(To);
    static long test(...);
    static T &&make();
    static constexpr bool value = sizeof(test(make())) == 1;
};
template <class T> constexpr const char *jespan_string_(T &&s)
{
    static_assert(jespan_becomes_<T, const char *>::value, JESPAN_NO_STRING_);
    return static_cast<T &&>(s);
}
template <class T> constexpr int64_t jespan_integer_(T n)
{
    return static_cast<int64_t>(n);
}
}
#define JESPAN_STRING_(s) jespan_string_(s)
#define JESPAN_INTEGER_(n) jespan_integer_(n)
#define JESPAN_CONTEXT_(n) (n)
#define JESPAN_SITE_ADDRESS_(s) (s)
#else
#define JESPAN_ASSERT_(condition, message) extern __attribute__((unused)) char jespan_assert_[(condition) ? 1 : -1]
#define JESPAN_STRING_(s) (s)
#define JESPAN_INTEGER_(n) (int64_t)(n)
#define JESPAN_CONTEXT_(n) (n)
#define JESPAN_SITE_ADDRESS_(s) (s)
#endif

/* A site is a constant. It does not compile with a name that is a variable. */
#ifdef __cplusplus
#define JESPAN_STATIC_ static constexpr
#else
#define JESPAN_STATIC_ static const
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define JESPAN_API __attribute__((visibility("default")))

/* The name under which reports show the module of a span. Define it before this header is included. */
#ifndef JESPAN_TARGET
#define JESPAN_TARGET ""
#endif

/* The number of a context. jespan_current() returns it, and mallctl's spans.<id>.* take it. A context keeps its number as long as
 * a span of it is open, it is current on a thread, it has a limit, or memory credited to it is live. */
typedef uint32_t jespan_context_t;

/* Contexts by name, as arguments. Each means the same in all functions and macros. */
#define JESPAN_CURRENT ((jespan_context_t)0)              /* the calling thread's current context */
#define JESPAN_ROOT    ((jespan_context_t)1)              /* the root of all contexts, "(root)" */
#define JESPAN_BASE    ((jespan_context_t)UINT32_MAX - 1) /* the calling thread's context outside any span, "thread:NAME" */
#define JESPAN_INVALID ((jespan_context_t)UINT32_MAX)     /* no context: a result, when a function has failed */

/* Labels of a span, and bytes of a name, a key or a value without its NUL. A longer string is cut between two UTF-8 characters,
 * and further labels are left out; spans.stats.truncated counts both. */
#define JESPAN_MAX_LABELS 16
#define JESPAN_MAX_STRING_BYTES 255

/* Flags of a site: its spans allocate from an arena of their own, a *span arena*, whose pages have the properties
 * below. Zero asks for nothing. There are at most max_arenas span arenas. Spans for which none is left allocate as all
 * others do (spans.stats.arenas_refused). docs/arenas.md describes each flag. */
#define JESPAN_ARENA           0x0001u /* an arena for the spans of this site */
#define JESPAN_ARENA_ALONE     0x0002u /* not for the spans below them */
#define JESPAN_ARENA_NONE      0x0004u /* no arena, not even that of the span above */
#define JESPAN_ARENA_DONTDUMP  0x0010u /* not in core dumps: MADV_DONTDUMP */
#define JESPAN_ARENA_DONTFORK  0x0020u /* not in forked children, where it reads as zeroes */
#define JESPAN_ARENA_LOCKED    0x0040u /* never paged out, nor given back: mlock(2) */
#define JESPAN_ARENA_GUARDED   0x0080u /* inaccessible pages around what the arena maps */
#define JESPAN_ARENA_WIPED     0x0100u /* objects are overwritten with zeroes as they are freed */
#define JESPAN_ARENA_HUGE      0x0200u /* transparent huge pages: MADV_HUGEPAGE */
#define JESPAN_ARENA_NOHUGE    0x0400u /* no transparent huge pages: MADV_NOHUGEPAGE */
#define JESPAN_ARENA_NUMA      0x0800u /* on the node numa_node: mbind(2) */
#define JESPAN_ARENA_DECAY     0x1000u /* dirty_decay_ms and muzzy_decay_ms, as jemalloc's options of these names */
#define JESPAN_ARENA_REGION    0x2000u /* each span is a region: see JESPAN_REGION() */
#define JESPAN_ARENA_REFUSE    0x4000u /* a region with survivors stays open: jespan_close() returns EBUSY */
#define JESPAN_ARENA_RELEASE   0x8000u /* survivors are freed too; without it they stay, and the region is set aside until they are gone */

/* Members that an initialiser of C++20 leaves out are 0 without a warning. */
#if defined __cplusplus && __cplusplus >= 202002L
#define JESPAN_ZERO_ = {}
#else
#define JESPAN_ZERO_
#endif

struct jespan_arena {
    uint32_t flags JESPAN_ZERO_; /* JESPAN_ARENA… */
    int32_t numa_node JESPAN_ZERO_;
    int64_t dirty_decay_ms JESPAN_ZERO_, muzzy_decay_ms JESPAN_ZERO_;
    uint64_t limit_bytes JESPAN_ZERO_; /* the most bytes of pages that may have memory; 0: no limit */
    const char *by_label JESPAN_ZERO_; /* an arena for each value of the label of this key; NULL: one for all */
};

/* A static description of a span. It must not change or go away while any span of it is open. Two sites with equal
 * contents are one site, with the arena that the first of them asked for. `target` and `file` may be NULL. */
struct jespan_site {
    const char *name;
    const char *target;
    const char *file;
    uint32_t line;
    struct jespan_arena arena;
};

/* A key with a value, which is a string or an integer. The string "7" and the integer 7 make two contexts. A label whose key or
 * string is NULL, or that has another type, is not valid: functions return EINVAL, macros leave it out. Where the
 * configuration's record_labels lists keys, labels with other keys are ignored before anything else is checked. */
enum jespan_label_type { JESPAN_TYPE_STRING, JESPAN_TYPE_INTEGER };

struct jespan_label {
    const char *key;
    const char *value; /* of a string; ignored for an integer */
    int64_t integer;   /* of an integer; ignored for a string */
    uint32_t type;     /* JESPAN_TYPE_STRING or JESPAN_TYPE_INTEGER */
};

/* Initialisers of a label. {"key", "value"} is a string too, but -Wextra warns about the members that it leaves out. They do not
 * compile with a key or value that is not a string, or with a pointer in place of the integer. */
#define JESPAN_LABEL(key, value) {JESPAN_STRING_(key), JESPAN_STRING_(value), 0, JESPAN_TYPE_STRING}
#define JESPAN_LABEL_INT(key, n) {JESPAN_STRING_(key), NULL, JESPAN_INTEGER_(n), JESPAN_TYPE_INTEGER}

/* A handle of an open span. Never dereference it. jespan recognises the handle of a span that was closed. */
typedef struct jespan_span jespan_span_t;

#ifndef JESPAN_DISABLE

/* Opens a span of `site` below the context `parent`, with `n_labels` labels. Does not enter it. At max_contexts the span has its
 * nearest ancestor's context (spans.stats.overflow).
 * Returns a handle to give to jespan_close(). Returns NULL with errno EINVAL (the site, its name, a label, the parent, or what
 * the site asks of an arena is not valid), ENOSPC (the site is a region, and max_arenas leaves no arena for it) or ENOMEM. */
JESPAN_API jespan_span_t *jespan_open(const struct jespan_site *site, jespan_context_t parent,
                                      const struct jespan_label *labels, size_t n_labels);

/* Makes the span current on the calling thread. Spans may be nested to any depth, also in themselves.
 * Returns 0, EINVAL (not an open span) or ENOMEM. */
JESPAN_API int jespan_enter(jespan_span_t *span);

/* Undoes the calling thread's last jespan_enter() of this span, in any order with other spans. The span that was entered last, of
 * those still entered, is current then. A span that was closed after it was entered can still be exited.
 * Returns 0, EINVAL (not a span) or EPERM (not entered on this thread). */
JESPAN_API int jespan_exit(jespan_span_t *span);

/* Closes the span, whatever references to it there are. The handle is valid for jespan_exit() only from here on. Threads that have
 * the span entered stay in its context until they exit it. NULL is ignored. The objects of a region are freed now, or when the
 * last thread exits it.
 * Returns 0, EINVAL (not an open span; closed before, perhaps) or EBUSY (a region with JESPAN_ARENA_REFUSE and survivors
 * that no thread is in; it stays open). */
JESPAN_API int jespan_close(jespan_span_t *span);

/* Count the references to a span that several parts of a program use, where none knows which is the last. jespan_open() makes the
 * first reference, jespan_ref() makes one more, jespan_unref() takes one away, and the last one closes the span.
 * Return 0 or EINVAL (not an open span). jespan_unref() also returns EBUSY, as jespan_close() does. */
JESPAN_API int jespan_ref(jespan_span_t *span);
JESPAN_API int jespan_unref(jespan_span_t *span);

/* Adds a label to an open span, in place of the value that the span has under that key. The span then has the context
 * with that label; its parent and site stay. It counts as closed in the old context and as opened in the new one. The calling thread
 * is in the new context at once wherever it has the span entered. Other threads stay in the old one until they exit. Memory
 * that was allocated in the old context, and spans that were opened below it, stay there.
 * `span` may be NULL for the span or block that the calling thread entered last. So the handle of a jespan_open() that failed
 * must not come here: the label would go to the span around it. A label that record_labels leaves out
 * changes nothing. At max_contexts (spans.stats.overflow) the span stays as it is.
 * Returns 0. Returns, with nothing changed, EINVAL (not an open span, or not a valid label), EPERM (`span` is NULL, and
 * nothing is entered, or jespan_attach() came last), ENOSPC (it has JESPAN_MAX_LABELS others; spans.stats.truncated) or ENOMEM. */
JESPAN_API int jespan_add_label(jespan_span_t *span, const struct jespan_label *label);

/* The calling thread's current context, to which its allocations are credited now: a number, never JESPAN_CURRENT or
 * JESPAN_BASE. Outside any span it is the context of the thread's name, or JESPAN_ROOT with thread_contexts:false. */
JESPAN_API jespan_context_t jespan_current(void);

/* Makes `context` current on the calling thread, until the next jespan_attach() at the same nesting level, or until the
 * span or block that the thread is in is left. This is how a thread pool carries a context to a worker:
 *     jespan_context_t previous = jespan_attach(work->context);
 *     …
 *     jespan_attach(previous);
 * JESPAN_BASE leaves what was attached. In C++, jespan::attachment (jespan.hpp) ends with its block, also by an exception. An
 * attachment counts as in use: the context keeps its number. `previous` does so only if something else keeps it: if it was attached
 * too, and has neither memory nor an open span by then, it may be gone (EINVAL) or, where numbers are used again, be another context.
 * Returns the context that was current before, or JESPAN_INVALID with errno EINVAL (no such context) or ENOMEM. */
JESPAN_API jespan_context_t jespan_attach(jespan_context_t context);

/* Credits a live object to `context` from now on, as when a request puts its result into a cache. The object is in use
 * there then. The allocation figures of both contexts do not change; their credited_in and credited_out figures count
 * the object. `ptr` is the address that malloc or a function like it returned, not an address inside the object. No
 * thread may free or resize the object meanwhile. NULL is ignored.
 * Returns 0, EINVAL (not a live object of the heap, or no such context) or ENOMEM (no memory, or a limit of the context
 * does not admit the object, which stays credited as it was). */
JESPAN_API int jespan_credit(void *ptr, jespan_context_t context);

#endif

/* An element of the array that mallctl's spans.<id>.ages returns, in no order: how much of a context's live memory was allocated in
 * one period of age_period_s seconds. */
struct jespan_age {
    uint64_t oldest_ns; /* how long ago the period began; no memory of it is older */
    uint64_t objects, bytes;
};

/* An element of the array that mallctl's spans.outlived returns, the site with the most bytes first: live memory of closed spans
 * by site, with all labels and parents. The strings are never freed. */
#define JESPAN_OUTLIVED_AGES 4
struct jespan_outlived {
    const char *name, *target, *file;
    uint32_t line;
    uint64_t objects, bytes;
    /* The bytes by the time since the last span of their context closed: less than 1, 10 and 60 minutes, and more. */
    uint64_t bytes_by_age[JESPAN_OUTLIVED_AGES];
    int64_t growth_bytes_per_min; /* since an earlier reading, one or two minutes ago; 0 with the first */
};

/* A sampler of the program's own. It is called for each span that is to be opened outside any other span, on the thread that opens
 * it, with the arguments of jespan_open(), of the labels the first JESPAN_MAX_LABELS that are valid, and with the `user` of
 * jespan_set_sampler(). The strings live as long as the call.
 * It returns 0 to leave the span out: allocations of that span and all below it are credited to the root. Any other
 * value samples the span. It may allocate and use this API; spans that it opens are sampled. It must return, and leave no span entered. */
typedef int jespan_sampler_t(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels,
                             void *user);

#ifndef JESPAN_DISABLE
/* Asks `decide` from now on, in place of the configured sampler; NULL asks the configured one again. Open spans stay as
 * they are. A thread that is opening a span may call the former sampler after this has returned, so the data that it
 * uses must stay valid. Cannot fail. */
JESPAN_API void jespan_set_sampler(jespan_sampler_t *decide, void *user);
#endif

/* The contents of a W3C traceparent header (https://www.w3.org/TR/trace-context/): identifiers in lower-case
 * hexadecimal digits, and flags, of which JESPAN_TRACE_SAMPLED is known. Of versions later than 00, there is only that one. */
#define JESPAN_TRACE_SAMPLED 1u
struct jespan_traceparent {
    char trace_id[33], span_id[17]; /* of the caller's trace and span */
    uint8_t flags;
};

#ifndef JESPAN_DISABLE
/* Reads the value of a traceparent header, without white space around it, into *out. As the specification demands,
 * identifiers of only zeroes, upper-case digits and version ff are not valid, version 00 has nothing behind the flags, and further
 * fields of later versions are ignored.
 * Returns 0, or EINVAL (not valid, or an argument is NULL; *out stays as it was). Any context may call it, a signal handler too. */
JESPAN_API int jespan_parse_traceparent(const char *header, struct jespan_traceparent *out);

/* Publishes the trace and the span that the calling thread works for, until the next call on this thread; NULL: it works for none.
 * Profilers of other processes read it, as OpenTelemetry's eBPF profiler, by OTEP 4947. jespan's figures do not depend on it. It
 * needs the option otel_context.
 * Returns 0, EINVAL (an identifier is no hexadecimal number, or is 0), ENOTSUP (otel_context is false), or EBUSY (another library
 * publishes on this thread, and still does). May be called from anywhere, but not in a signal handler that interrupts it. */
JESPAN_API int jespan_publish_trace(const struct jespan_traceparent *trace);
#endif

/* The two labels of a struct jespan_traceparent, for JESPAN_WITH() or an array of struct jespan_label. */
#define JESPAN_TRACE_LABELS(traceparent)                                                                               \
    JESPAN_LABEL("trace_id", (traceparent).trace_id), JESPAN_LABEL("span_id", (traceparent).span_id)

/* Defines a static site with this file and line, and perhaps an arena:
 *     JESPAN_SITE(load, "load");
 *     JESPAN_SITE(cache, "cache", .arena = {.flags = JESPAN_ARENA, .limit_bytes = 64 << 20});
 *     JESPAN_SITE_ARENA(secrets, "secrets", JESPAN_ARENA | JESPAN_ARENA_WIPED);
 * The second form needs C or C++20; the third works in any C++ too. */
#define JESPAN_SITE(var, ...)                                                                                          \
    JESPAN_EIGHTH_(__VA_ARGS__, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_,            \
                   JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_PLAIN_, 0)(var, __VA_ARGS__)
#define JESPAN_SITE_ARENA(var, name, flags)                                                                            \
    JESPAN_STATIC_ struct jespan_site var = {JESPAN_STRING_(name), JESPAN_TARGET, __FILE__, __LINE__, {(flags), 0, 0, 0, 0, 0}}

#define JESPAN_EIGHTH_(a, b, c, d, e, f, g, h, ...) h
#define JESPAN_SITE_PLAIN_(var, name) JESPAN_SITE_ARENA(var, name, 0)
#define JESPAN_SITE_WITH_(var, name_, ...)                                                                             \
    JESPAN_STATIC_ struct jespan_site var = {                                                                            \
        .name = JESPAN_STRING_(name_), .target = JESPAN_TARGET, .file = __FILE__, .line = __LINE__, __VA_ARGS__}

/* Private: a block on the stack. */
struct jespan_block {
    uint64_t entered;
};

#ifndef JESPAN_DISABLE

/* A span from here to the end of the block, with labels as pairs of strings:
 *     JESPAN("parse");
 *     JESPAN("request", "route", route, "tenant", tenant);
 * Does not compile with a label that has no value, or with an argument that is not a string. The span ends with the block,
 * however that is left: by break, return, goto or a C++ exception. After a longjmp() out of the block it stays entered until an
 * enclosing span or block of the thread ends, or that block is entered again, or one around it that was jumped past too. Without memory the
 * thread stays where it was. */
#define JESPAN(...) JESPAN_BLOCK_AT_(__COUNTER__, __VA_ARGS__)

/* The same with labels of any type, at least one:
 *     JESPAN_WITH("request", JESPAN_LABEL("route", route), JESPAN_LABEL_INT("shard", 7)); */
#define JESPAN_WITH(name, ...) JESPAN_WITH_AT_(__COUNTER__, name, __VA_ARGS__)

/* From here to the end of the block, allocations are credited to `context`. Time still passes for the context that was current
 * before:
 *     JESPAN_CREDIT(cache->context);
 *     entry = strdup(key);
 * With a context that does not exist, allocations are credited as before. */
#define JESPAN_CREDIT(context) JESPAN_CREDIT_(__COUNTER__, context)

/* A region from here to the end of the block. Allocations in it, and in blocks and spans that are opened in it, come
 * from an arena that no other open region has. They are freed together at the end, without a free for each:
 *     JESPAN_REGION("parse");
 * Memory that is to stay must be credited to another context with JESPAN_CREDIT(), or be copied. An object that was
 * allocated in the region and credited to another context by jespan_credit() is a *survivor*. With a survivor, nothing
 * is freed at the end; the region is set aside until its survivors are gone. The same happens when a C++ exception
 * leaves the region, until the exception is handled. Any thread may free and resize objects in it as always. Using a
 * pointer into it after its end is as wrong as after free(); freeing such a pointer ends the program, as a double free
 * does.
 * JESPAN_REGION_OF(&site) takes a site of the program's own, with JESPAN_ARENA_REGION and other flags. Without that flag, and
 * where max_arenas leaves no arena (spans.stats.regions_lost), the block is an ordinary span, and memory that is not freed
 * in it stays allocated. Do not jump into the block past this line, with goto or switch: the end would read a variable that was not set. */
#define JESPAN_REGION(name) JESPAN_REGION_AT_(__COUNTER__, name)
#define JESPAN_REGION_OF(site) JESPAN_REGION_OF_AT_(__COUNTER__, site)

/* Private: the functions that the macros above call. */
JESPAN_API void jespan_enter_region(struct jespan_block *scope, const struct jespan_site *site);
JESPAN_API void jespan_exit_region(struct jespan_block *scope);
JESPAN_API void jespan_enter_block(struct jespan_block *scope, const struct jespan_site *site,
                                   const char *const *name_and_labels, size_t count);
JESPAN_API void jespan_enter_block_labels(struct jespan_block *scope, const struct jespan_site *site,
                                          const struct jespan_label *labels, size_t n_labels);
JESPAN_API void jespan_exit_block(struct jespan_block *scope);
JESPAN_API void jespan_enter_credit(struct jespan_block *scope, jespan_context_t context);
JESPAN_API void jespan_exit_credit(struct jespan_block *scope);

#define JESPAN_CAT_(a, b) a##b
#define JESPAN_FIRST_(a, ...) a
#define JESPAN_BLOCK_AT_(n, ...) JESPAN_BLOCK_(n, __VA_ARGS__)
#define JESPAN_WITH_AT_(n, name, ...) JESPAN_WITH_(n, name, __VA_ARGS__)
#define JESPAN_BLOCK_VARIABLES_(n, name)                                                                               \
    JESPAN_SITE_ARENA(JESPAN_CAT_(jespan_site_, n), name, 0);                                                          \
    struct jespan_block JESPAN_CAT_(jespan_block_, n) __attribute__((cleanup(jespan_exit_block), unused))
#if defined __cplusplus && __cplusplus >= 201103L
/* Arguments are read in the expression that made them, so that they may be temporary: std::to_string(id).c_str(). */
extern "C++" {
template <class... strings>
inline void jespan_enter_strings_(struct jespan_block &block, const struct jespan_site &site, strings... name_and_labels)
{
    static_assert(sizeof...(strings) % 2 == 1, JESPAN_NO_VALUE_);
    const char *const all[] = {name_and_labels...};
    jespan_enter_block(&block, &site, all, sizeof...(strings));
}
template <size_t n_labels>
inline void jespan_enter_labels_(struct jespan_block &block, const struct jespan_site &site,
                                 const struct jespan_label (&labels)[n_labels])
{
    jespan_enter_block_labels(&block, &site, labels, n_labels);
}
}
#define JESPAN_BLOCK_(n, ...)                                                                                          \
    JESPAN_BLOCK_VARIABLES_(n, JESPAN_FIRST_(__VA_ARGS__, 0)) = {0};                                                   \
    jespan_enter_strings_(JESPAN_CAT_(jespan_block_, n), JESPAN_CAT_(jespan_site_, n), JESPAN_STRINGS_(__VA_ARGS__))
#define JESPAN_WITH_(n, name, ...)                                                                                     \
    JESPAN_BLOCK_VARIABLES_(n, name) = {0};                                                                            \
    jespan_enter_labels_(JESPAN_CAT_(jespan_block_, n), JESPAN_CAT_(jespan_site_, n), {__VA_ARGS__})
#else
#define JESPAN_BLOCK_(n, ...)                                                                                          \
    const char *const JESPAN_CAT_(jespan_args_, n)[] = {JESPAN_STRINGS_(__VA_ARGS__)};                                 \
    JESPAN_ASSERT_(JESPAN_COUNT_(JESPAN_CAT_(jespan_args_, n)) % 2 == 1, JESPAN_NO_VALUE_);                            \
    JESPAN_BLOCK_VARIABLES_(n, JESPAN_FIRST_(__VA_ARGS__, 0));                                                         \
    jespan_enter_block(&JESPAN_CAT_(jespan_block_, n), &JESPAN_CAT_(jespan_site_, n), JESPAN_CAT_(jespan_args_, n),    \
                       JESPAN_COUNT_(JESPAN_CAT_(jespan_args_, n)))
#define JESPAN_WITH_(n, name, ...)                                                                                     \
    const struct jespan_label JESPAN_CAT_(jespan_labels_, n)[] = {__VA_ARGS__};                                        \
    JESPAN_BLOCK_VARIABLES_(n, name);                                                                                  \
    jespan_enter_block_labels(&JESPAN_CAT_(jespan_block_, n), &JESPAN_CAT_(jespan_site_, n),                           \
                              JESPAN_CAT_(jespan_labels_, n), JESPAN_COUNT_(JESPAN_CAT_(jespan_labels_, n)))
#endif

#endif

/* Checks each of a name and up to JESPAN_MAX_LABELS pairs. Further ones are left out of the span anyway. */
#define JESPAN_COUNT_(array) (sizeof(array) / sizeof(array)[0])
#define JESPAN_UNCHECKED_(...) __VA_ARGS__
#define JESPAN_STRINGS_1_(a) JESPAN_STRING_(a)
#define JESPAN_STRINGS_3_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_1_(__VA_ARGS__)
#define JESPAN_STRINGS_5_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_3_(__VA_ARGS__)
#define JESPAN_STRINGS_7_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_5_(__VA_ARGS__)
#define JESPAN_STRINGS_9_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_7_(__VA_ARGS__)
#define JESPAN_STRINGS_11_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_9_(__VA_ARGS__)
#define JESPAN_STRINGS_13_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_11_(__VA_ARGS__)
#define JESPAN_STRINGS_15_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_13_(__VA_ARGS__)
#define JESPAN_STRINGS_17_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_15_(__VA_ARGS__)
#define JESPAN_STRINGS_19_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_17_(__VA_ARGS__)
#define JESPAN_STRINGS_21_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_19_(__VA_ARGS__)
#define JESPAN_STRINGS_23_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_21_(__VA_ARGS__)
#define JESPAN_STRINGS_25_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_23_(__VA_ARGS__)
#define JESPAN_STRINGS_27_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_25_(__VA_ARGS__)
#define JESPAN_STRINGS_29_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_27_(__VA_ARGS__)
#define JESPAN_STRINGS_31_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_29_(__VA_ARGS__)
#define JESPAN_STRINGS_33_(a, b, ...) JESPAN_STRING_(a), JESPAN_STRING_(b), JESPAN_STRINGS_31_(__VA_ARGS__)
#define JESPAN_STRINGS_(...)                                                                                           \
    JESPAN_65TH_(__VA_ARGS__, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,              \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,                     \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,                     \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,                     \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,                     \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_UNCHECKED_,                     \
    JESPAN_UNCHECKED_, JESPAN_UNCHECKED_, JESPAN_STRINGS_33_, JESPAN_UNCHECKED_, JESPAN_STRINGS_31_,                   \
    JESPAN_UNCHECKED_, JESPAN_STRINGS_29_, JESPAN_UNCHECKED_, JESPAN_STRINGS_27_, JESPAN_UNCHECKED_,                   \
    JESPAN_STRINGS_25_, JESPAN_UNCHECKED_, JESPAN_STRINGS_23_, JESPAN_UNCHECKED_, JESPAN_STRINGS_21_,                  \
    JESPAN_UNCHECKED_, JESPAN_STRINGS_19_, JESPAN_UNCHECKED_, JESPAN_STRINGS_17_, JESPAN_UNCHECKED_,                   \
    JESPAN_STRINGS_15_, JESPAN_UNCHECKED_, JESPAN_STRINGS_13_, JESPAN_UNCHECKED_, JESPAN_STRINGS_11_,                  \
    JESPAN_UNCHECKED_, JESPAN_STRINGS_9_, JESPAN_UNCHECKED_, JESPAN_STRINGS_7_, JESPAN_UNCHECKED_,                     \
    JESPAN_STRINGS_5_, JESPAN_UNCHECKED_, JESPAN_STRINGS_3_, JESPAN_UNCHECKED_, JESPAN_STRINGS_1_, 0)(__VA_ARGS__)
#define JESPAN_65TH_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20,        \
    _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, _33, _34, _35, _36, _37, _38, _39, _40, _41, _42,      \
    _43, _44, _45, _46, _47, _48, _49, _50, _51, _52, _53, _54, _55, _56, _57, _58, _59, _60, _61, _62, _63, _64, n, ...) \
    n

#ifndef JESPAN_DISABLE
#define JESPAN_REGION_AT_(n, name)                                                                                     \
    JESPAN_SITE_ARENA(JESPAN_CAT_(jespan_site_, n), name, JESPAN_ARENA_REGION);                                        \
    JESPAN_REGION_OF_AT_(n, &JESPAN_CAT_(jespan_site_, n))
#define JESPAN_REGION_OF_AT_(n, site)                                                                                  \
    struct jespan_block JESPAN_CAT_(jespan_block_, n) __attribute__((cleanup(jespan_exit_region), unused));            \
    jespan_enter_region(&JESPAN_CAT_(jespan_block_, n), JESPAN_SITE_ADDRESS_(site))

#define JESPAN_CREDIT_(n, context) JESPAN_CREDIT_AT_(n, context)
#define JESPAN_CREDIT_AT_(n, context)                                                                                     \
    struct jespan_block JESPAN_CAT_(jespan_block_, n) __attribute__((cleanup(jespan_exit_credit), unused));             \
    jespan_enter_credit(&JESPAN_CAT_(jespan_block_, n), JESPAN_CONTEXT_(context))
#else
#include <jespan/disabled.h>
#endif

#ifdef __cplusplus
}
#endif

#endif
