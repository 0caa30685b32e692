/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan: which span holds the memory. The span API.
 *
 * A *site* describes a span in the source. A *span* is one open instance of a site: opened once, entered and exited any
 * number of times on any thread, closed once. A *context* is the path of sites and labels from the root; every
 * allocation made while it is current is credited to it, whichever thread frees the memory later.
 *
 * All functions may be called from any thread at any time, also before main and in destructors. None may be called from
 * a signal handler. Pointers handed in stay the caller's: jespan copies what it keeps. No function here ever ends the
 * program; wrong arguments give an error code.
 */
#ifndef JESPAN_JESPAN_H
#define JESPAN_JESPAN_H

#include <stddef.h>
#include <stdint.h>

/* What the macros below check while the program is compiled, from C11 and C++11 on: that a string is one, and that an integer is
 * no pointer. */
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

/* A site is a constant: with a name that is a variable, which C++ would take when it first comes by, it does not compile. */
#ifdef __cplusplus
#define JESPAN_STATIC_ static constexpr
#else
#define JESPAN_STATIC_ static const
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define JESPAN_API __attribute__((visibility("default")))

/* The name under which a span's module is reported; define it before including this header. */
#ifndef JESPAN_TARGET
#define JESPAN_TARGET ""
#endif

/* The number of a context: what jespan_current() returns and what mallctl's spans.<id>.* names take. A context, and so
 * its number, lives as long as a span of it is open, it is current on some thread, or memory credited to it is live. */
typedef uint32_t jespan_context_t;

#define JESPAN_CURRENT ((jespan_context_t)0)          /* as an argument: the calling thread's current context */
#define JESPAN_ROOT    ((jespan_context_t)1)          /* no span */
#define JESPAN_INVALID ((jespan_context_t)UINT32_MAX) /* as a result: failed, errno is set */

/* Limits. A longer name, key or value is cut between two UTF-8 characters, labels beyond the limit are left out;
 * spans.stats.truncated counts each. */
#define JESPAN_MAX_LABELS 16
#define JESPAN_MAX_STRING_BYTES 255

/* What a site may ask for: that its spans allocate from an arena of their own, a *span arena*, and what is special about that
 * arena's pages. Zeroes ask for nothing. There are at most max_arenas; spans for which none is left allocate as all others
 * do (spans.stats.arenas_refused). docs/arenas.md has the whole of it. */
#define JESPAN_ARENA           0x0001u /* an arena for the spans of this site */
#define JESPAN_ARENA_ALONE     0x0002u /* not for the spans below them */
#define JESPAN_ARENA_NONE      0x0004u /* no arena, not even that of the span above */
#define JESPAN_ARENA_DONTDUMP  0x0010u /* not in core dumps: MADV_DONTDUMP */
#define JESPAN_ARENA_DONTFORK  0x0020u /* not in forked children, where it reads as zeroes */
#define JESPAN_ARENA_LOCKED    0x0040u /* never paged out, nor given back: mlock(2) */
#define JESPAN_ARENA_GUARDED   0x0080u /* pages that nobody may touch around what the arena maps */
#define JESPAN_ARENA_WIPED     0x0100u /* objects are overwritten with zeroes as they are freed */
#define JESPAN_ARENA_HUGE      0x0200u /* transparent huge pages: MADV_HUGEPAGE */
#define JESPAN_ARENA_NOHUGE    0x0400u /* none: MADV_NOHUGEPAGE */
#define JESPAN_ARENA_NUMA      0x0800u /* on the node numa_node: mbind(2) */
#define JESPAN_ARENA_DECAY     0x1000u /* dirty_decay_ms and muzzy_decay_ms, as jemalloc's options of these names */
#define JESPAN_ARENA_REGION    0x2000u /* each span is a region: see JESPAN_REGION() */
#define JESPAN_ARENA_REFUSE    0x4000u /* one with survivors stays open */
#define JESPAN_ARENA_RELEASE   0x8000u /* they go too; else they stay, and the region is set aside until they are gone */

/* What an initialiser of C++20 leaves out is 0 without a warning. */
#if defined __cplusplus && __cplusplus >= 202002L
#define JESPAN_ZERO_ = {}
#else
#define JESPAN_ZERO_
#endif

struct jespan_arena {
    uint32_t flags JESPAN_ZERO_; /* of the above */
    int32_t numa_node JESPAN_ZERO_;
    int64_t dirty_decay_ms JESPAN_ZERO_, muzzy_decay_ms JESPAN_ZERO_;
    uint64_t limit_bytes JESPAN_ZERO_; /* of pages with memory that the arena has at most; 0: any number */
    const char *by_label JESPAN_ZERO_; /* an arena for each value of the label of this key; NULL: one for all */
};

/* A static description of a span. Must stay as it is while any span of it is open; two sites with equal contents are
 * the same site, with what the first asked for. `target` and `file` may be NULL. */
struct jespan_site {
    const char *name;
    const char *target;
    const char *file;
    uint32_t line;
    struct jespan_arena arena;
};

/* A key and a value, a string or an integer: the string "7" and the integer 7 make two contexts. Strings are
 * NUL-terminated. A label with a NULL key, a string that is NULL, or another type is EINVAL; jespan_scope_enter() and
 * jespan_scope_enter_labels() leave it out. Where the configuration's record_labels names keys, labels with others are
 * left out before anything else is looked at. */
enum jespan_label_type { JESPAN_STRING, JESPAN_INTEGER };

struct jespan_label {
    const char *key;
    const char *value; /* not looked at for an integer */
    int64_t integer;   /* not looked at for a string */
    uint32_t type;     /* JESPAN_STRING or JESPAN_INTEGER */
};

/* Initialisers of a label. {"key", "value"} is a string too, but -Wextra warns of what it leaves out. Does not compile with a
 * key or value that is no string, or a pointer in place of the integer. */
#define JESPAN_LABEL(key, value) {JESPAN_STRING_(key), JESPAN_STRING_(value), 0, JESPAN_STRING}
#define JESPAN_LABEL_INT(key, n) {JESPAN_STRING_(key), NULL, JESPAN_INTEGER_(n), JESPAN_INTEGER}

/* An opaque handle: never dereference it. A handle that was closed is recognised as such. */
typedef struct jespan_span jespan_span_t;

/* Opens a span of `site` below `parent` (JESPAN_CURRENT, JESPAN_ROOT or a number from jespan_current()) with `n_labels`
 * labels. Does not enter it. At max_contexts the span is credited to its nearest ancestor instead
 * (spans.stats.overflow). Returns a handle to give to jespan_close(), or NULL with errno: EINVAL (site, name, label or
 * parent is not valid, or what the site wishes of an arena), ENOSPC (a region, and max_arenas leaves none for it), ENOMEM. */
JESPAN_API jespan_span_t *jespan_open(const struct jespan_site *site, jespan_context_t parent,
                                      const struct jespan_label *labels, size_t n_labels);

/* Makes the span current on the calling thread. May be nested to any depth, also with itself.
 * Returns 0, EINVAL (not an open span) or ENOMEM. errno is left alone. */
JESPAN_API int jespan_enter(jespan_span_t *span);

/* Undoes the calling thread's last jespan_enter() of this span, in whatever order spans were entered; current is then
 * the span entered last among those still entered. A span that was closed meanwhile can still be exited.
 * Returns 0 or EINVAL (not a span), EPERM (not entered on this thread). errno is left alone. */
JESPAN_API int jespan_exit(jespan_span_t *span);

/* Closes the span, whoever else holds references; the handle is then no longer valid but for jespan_exit(). Where it is
 * still entered, those threads stay in its context until they exit. NULL is ignored.
 * What is live in a region is freed now, or when the last thread exits it.
 * Returns 0 or EINVAL (not an open span: closed before, perhaps), EBUSY (a region that refuses to be closed, as it has survivors;
 * it stays open). errno is left alone. */
JESPAN_API int jespan_close(jespan_span_t *span);

/* For a span with several owners, none of whom knows which will be the last. jespan_open() gives the first reference;
 * jespan_unref() gives one up, and with the last one closes the span. Both return 0 or EINVAL (not an open span), jespan_unref()
 * what jespan_close() does, too; errno is left alone. */
JESPAN_API int jespan_ref(jespan_span_t *span);
JESPAN_API int jespan_unref(jespan_span_t *span);

/* Adds a label to an open span, in place of the value that it has under that key. From then on the span is of the context
 * with that label, its parent and site as they were: it counts as ended in the old context and as opened in the new one,
 * where the calling thread is at once wherever it has the span entered; other threads stay in the old context until they
 * exit. So does, for good, what was allocated there (outlived, unless another span of it is open) or opened below it.
 * `span` may be NULL for what the calling thread entered last, by jespan_enter() or JESPAN().
 * A label that record_labels leaves out changes nothing. At max_contexts (spans.stats.overflow), and where the span has only
 * its ancestor's context, the span stays as it is.
 * Returns 0, or, with nothing changed: EINVAL (not an open span, or not a label), EPERM (`span` is NULL, and nothing is
 * entered or jespan_attach() came last), ENOSPC (it has JESPAN_MAX_LABELS others; spans.stats.truncated), ENOMEM. errno is
 * left alone. */
JESPAN_API int jespan_add_label(jespan_span_t *span, const struct jespan_label *label);

/* The calling thread's current context: what its allocations are credited to now. Never JESPAN_CURRENT; outside any
 * span it is the context of the thread's name, or JESPAN_ROOT. */
JESPAN_API jespan_context_t jespan_current(void);

/* Makes `context` current on the calling thread until the next jespan_attach() on the same nesting level, or until the span or
 * block that the thread was in is left. This is how a thread pool carries a context to a worker:
 *     jespan_context_t previous = jespan_attach(work->context);
 *     …
 *     jespan_attach(previous);
 * In C++, where an exception may come in between, jespan::attached in jespan.hpp does both.
 * Returns the previously current context, or JESPAN_INVALID with errno EINVAL (no such context) or ENOMEM. */
JESPAN_API jespan_context_t jespan_attach(jespan_context_t context);

/* Credits a live object to `context` (a number from jespan_current(), JESPAN_CURRENT or JESPAN_ROOT) from now on, as when a
 * request hands its result to a cache. It is in use there then; what either context allocated stays as it is, and the
 * move shows in their moved_in and moved_out figures. `ptr` is what malloc or the like returned, not an address inside, and
 * must not be freed meanwhile; NULL is ignored.
 * Returns 0, EINVAL (not a live object of the heap, or no such context) or ENOMEM (also where a limit of the context does
 * not admit it; the object stays whose it was). errno is left alone. */
JESPAN_API int jespan_retag(void *ptr, jespan_context_t context);

/* What mallctl's spans.<id>.ages says, an array of these, in no order: what of a context's live memory was born in one
 * period of age_period_s seconds. */
struct jespan_age {
    uint64_t oldest_ns; /* how long ago the period began: nothing of it is older */
    uint64_t objects, bytes;
};

/* What mallctl's spans.outlived says, an array of these, those with the most bytes first: live memory of spans that are
 * closed, by site, whatever their labels and parents. Texts stay for good. */
#define JESPAN_OUTLIVED_AGES 4
struct jespan_outlived {
    const char *name, *target, *file;
    uint32_t line;
    uint64_t objects, bytes;
    /* The bytes by the time since the last span of their context closed: less than 1, 10, 60 minutes, more. */
    uint64_t bytes_by_age[JESPAN_OUTLIVED_AGES];
    int64_t growth_bytes_per_min; /* since an earlier reading, one or two minutes ago; 0 with the first */
};

/* A sampler of the program's own: called for each span that is to be opened outside any other, on the thread that opens
 * it, with the arguments of jespan_open() and what jespan_set_sampler() was given. The strings live as long as the call
 * does. Non-zero: the span is sampled; zero: its allocations, and those of all spans below it, are credited to the root.
 * It may allocate and use this API; spans that it opens are sampled. It must return, leaving no span entered. */
typedef int jespan_sampler_t(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels,
                             void *user);

/* From now on `decide` is asked in place of the sampler that is configured; NULL: the latter again. Spans that are open
 * stay as they are. A thread that is just opening a span may call the former one after this has returned: what that
 * uses must stay. Cannot fail; errno is left alone. */
JESPAN_API void jespan_set_sampler(jespan_sampler_t *decide, void *user);
/* What a W3C traceparent header says (https://www.w3.org/TR/trace-context/): identifiers in lower-case hexadecimal
 * digits, and JESPAN_TRACE_SAMPLED or not. Of a version later than 00 only that flag is known. */
#define JESPAN_TRACE_SAMPLED 1u
struct jespan_traceparent {
    char trace_id[33], span_id[17]; /* of the caller's trace and span */
    uint8_t flags;
};

/* Reads the value of a traceparent header, without white space around it. As the specification has it: identifiers of
 * only zeroes, upper-case digits and version ff are invalid, version 00 has nothing behind the flags, and what later
 * versions have there is passed over. Returns 0, or EINVAL (not valid, or an argument is NULL; `out` is as it was). errno
 * is left alone. Touches nothing but its arguments, so it may be called anywhere, in a signal handler too. */
JESPAN_API int jespan_parse_traceparent(const char *header, struct jespan_traceparent *out);

/* Its two labels, to stand among others: in JESPAN_WITH(), or in an array of struct jespan_label. */
#define JESPAN_TRACE_LABELS(traceparent)                                                                               \
    JESPAN_LABEL("trace_id", (traceparent).trace_id), JESPAN_LABEL("span_id", (traceparent).span_id)

/* Defines a static site with this file and line, and perhaps an arena:
 *     JESPAN_SITE(load, "load");
 *     JESPAN_SITE(cache, "cache", .arena = {.flags = JESPAN_ARENA, .limit_bytes = 64 << 20});
 *     JESPAN_ARENA_SITE(secrets, "secrets", JESPAN_ARENA | JESPAN_ARENA_WIPED);
 * The second is C, or C++20; the third is for any C++ too. */
#define JESPAN_SITE(var, ...)                                                                                          \
    JESPAN_EIGHTH_(__VA_ARGS__, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_WITH_,            \
                   JESPAN_SITE_WITH_, JESPAN_SITE_WITH_, JESPAN_SITE_PLAIN_, 0)(var, __VA_ARGS__)
#define JESPAN_ARENA_SITE(var, name, flags)                                                                            \
    JESPAN_STATIC_ struct jespan_site var = {JESPAN_STRING_(name), JESPAN_TARGET, __FILE__, __LINE__, {(flags), 0, 0, 0, 0, 0}}

#define JESPAN_EIGHTH_(a, b, c, d, e, f, g, h, ...) h
#define JESPAN_SITE_PLAIN_(var, name) JESPAN_ARENA_SITE(var, name, 0)
#define JESPAN_SITE_WITH_(var, name_, ...)                                                                             \
    JESPAN_STATIC_ struct jespan_site var = {                                                                            \
        .name = JESPAN_STRING_(name_), .target = JESPAN_TARGET, .file = __FILE__, .line = __LINE__, __VA_ARGS__}

/* A span from here to the end of the block, with labels as pairs of strings:
 *     JESPAN("parse");
 *     JESPAN("request", "route", route, "tenant", tenant);
 * Does not compile with a label that has no value, or with what is no string.
 * Ends with the block however that is left: break, return, goto, a C++ exception. longjmp() past it leaves it entered
 * until an enclosing span or block of the thread ends or the same block is entered again. */
#define JESPAN(...) JESPAN_SCOPE_AT_(__COUNTER__, __VA_ARGS__)

/* The same with labels of any type, of which there must be one:
 *     JESPAN_WITH("request", JESPAN_LABEL("route", route), JESPAN_LABEL_INT("shard", 7)); */
#define JESPAN_WITH(name, ...) JESPAN_WITH_AT_(__COUNTER__, name, __VA_ARGS__)

/* From here to the end of the block, what is allocated is credited to `context` (as for jespan_retag()), while time
 * still passes for who was current before:
 *     JESPAN_FOR(cache->context);
 *     entry = strdup(key);
 * Of a context that does not exist nothing comes: allocations are credited as before. */
#define JESPAN_FOR(context) JESPAN_FOR_(__COUNTER__, context)

/* A region from here to the end of the block: what is allocated in it, and in blocks and spans opened inside it, comes from an
 * arena that no other open region has, and is freed in one go at the end, without a free for each:
 *     JESPAN_REGION("parse");
 * What is to stay must be allocated for another owner, JESPAN_FOR(), or copied. An object that was allocated in it but handed to
 * another by jespan_retag() is a *survivor*: with one, nothing is freed at the end, and the region is set aside until its
 * survivors are gone; so it is when a C++ exception leaves it, until that is over. Objects may be freed and resized in it as always, by any thread. Whoever uses a pointer into it
 * afterwards is as wrong as after free(); a free of one ends the program, as a double free does.
 * JESPAN_REGION_OF(&site) takes a site of the program's own, with JESPAN_ARENA_REGION and what else it wishes for. Where max_arenas leaves
 * no arena for it (spans.stats.regions_lost), the block is a span, and what is not freed in it stays. */
#define JESPAN_REGION(name) JESPAN_REGION_AT_(__COUNTER__, name)
#define JESPAN_REGION_OF(site) JESPAN_REGION_OF_AT_(__COUNTER__, site)

/* What these are made of; not for direct use. */
struct jespan_scope {
    uint64_t entered;
};
JESPAN_API void jespan_region_enter(struct jespan_scope *scope, const struct jespan_site *site);
JESPAN_API void jespan_region_exit(struct jespan_scope *scope);
JESPAN_API void jespan_scope_enter(struct jespan_scope *scope, const struct jespan_site *site,
                                   const char *const *name_and_labels, size_t count);
JESPAN_API void jespan_scope_enter_labels(struct jespan_scope *scope, const struct jespan_site *site,
                                          const struct jespan_label *labels, size_t n_labels);
JESPAN_API void jespan_scope_exit(struct jespan_scope *scope);
JESPAN_API void jespan_owner_enter(struct jespan_scope *scope, jespan_context_t context);
JESPAN_API void jespan_owner_exit(struct jespan_scope *scope);

#define JESPAN_CAT_(a, b) a##b
#define JESPAN_FIRST_(a, ...) a
#define JESPAN_COUNT_(array) (sizeof(array) / sizeof(array)[0])
#define JESPAN_SCOPE_AT_(n, ...) JESPAN_SCOPE_(n, __VA_ARGS__)
#define JESPAN_WITH_AT_(n, name, ...) JESPAN_WITH_(n, name, __VA_ARGS__)
#define JESPAN_SCOPE_VARIABLES_(n, name)                                                                               \
    JESPAN_ARENA_SITE(JESPAN_CAT_(jespan_site_, n), name, 0);                                                          \
    struct jespan_scope JESPAN_CAT_(jespan_scope_, n) __attribute__((cleanup(jespan_scope_exit), unused))
#define JESPAN_SCOPE_(n, ...)                                                                                          \
    const char *const JESPAN_CAT_(jespan_args_, n)[] = {JESPAN_STRINGS_(__VA_ARGS__)};                                 \
    JESPAN_ASSERT_(JESPAN_COUNT_(JESPAN_CAT_(jespan_args_, n)) % 2 == 1, JESPAN_NO_VALUE_);                            \
    JESPAN_SCOPE_VARIABLES_(n, JESPAN_FIRST_(__VA_ARGS__, 0));                                                         \
    jespan_scope_enter(&JESPAN_CAT_(jespan_scope_, n), &JESPAN_CAT_(jespan_site_, n), JESPAN_CAT_(jespan_args_, n),    \
                       JESPAN_COUNT_(JESPAN_CAT_(jespan_args_, n)))
#define JESPAN_WITH_(n, name, ...)                                                                                     \
    const struct jespan_label JESPAN_CAT_(jespan_labels_, n)[] = {__VA_ARGS__};                                        \
    JESPAN_SCOPE_VARIABLES_(n, name);                                                                                  \
    jespan_scope_enter_labels(&JESPAN_CAT_(jespan_scope_, n), &JESPAN_CAT_(jespan_site_, n),                           \
                              JESPAN_CAT_(jespan_labels_, n), JESPAN_COUNT_(JESPAN_CAT_(jespan_labels_, n)))

/* Each of a name and up to JESPAN_MAX_LABELS pairs; those beyond are left out of the span anyway. */
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

#define JESPAN_REGION_AT_(n, name)                                                                                     \
    JESPAN_ARENA_SITE(JESPAN_CAT_(jespan_site_, n), name, JESPAN_ARENA_REGION);                                        \
    JESPAN_REGION_OF_AT_(n, &JESPAN_CAT_(jespan_site_, n))
#define JESPAN_REGION_OF_AT_(n, site)                                                                                  \
    struct jespan_scope JESPAN_CAT_(jespan_scope_, n) __attribute__((cleanup(jespan_region_exit), unused));            \
    jespan_region_enter(&JESPAN_CAT_(jespan_scope_, n), JESPAN_SITE_ADDRESS_(site))

#define JESPAN_FOR_(n, context) JESPAN_FOR_AT_(n, context)
#define JESPAN_FOR_AT_(n, context)                                                                                     \
    struct jespan_scope JESPAN_CAT_(jespan_scope_, n) __attribute__((cleanup(jespan_owner_exit), unused));             \
    jespan_owner_enter(&JESPAN_CAT_(jespan_scope_, n), JESPAN_CONTEXT_(context))

#ifdef __cplusplus
}
#endif

#endif
