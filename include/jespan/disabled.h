/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API with JESPAN_DISABLE: jespan.h includes this. Functions return the value that means success. */
#ifndef JESPAN_DISABLED_H
#define JESPAN_DISABLED_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <jespan/jespan.h>

#ifdef JESPAN_DISABLE

/* Compiled, so that arguments stay right and count as used, and never run. */
#define JESPAN(...)                                                                                                    \
    do {                                                                                                               \
        if (0) {                                                                                                       \
            const char *const jespan_args_[] = {JESPAN_STRINGS_(__VA_ARGS__)};                                         \
            JESPAN_ASSERT_(JESPAN_COUNT_(jespan_args_) % 2 == 1, JESPAN_NO_VALUE_);                                    \
            (void)jespan_args_;                                                                                        \
        }                                                                                                              \
    } while (0)
#define JESPAN_WITH(name, ...)                                                                                         \
    do {                                                                                                               \
        if (0) {                                                                                                       \
            const struct jespan_label jespan_labels_[] = {__VA_ARGS__};                                                \
            (void)JESPAN_STRING_(name);                                                                                \
            (void)jespan_labels_;                                                                                      \
        }                                                                                                              \
    } while (0)
#define JESPAN_UNUSED_(argument)                                                                                       \
    do {                                                                                                               \
        if (0)                                                                                                         \
            (void)(argument);                                                                                          \
    } while (0)
#define JESPAN_CREDIT(context) JESPAN_UNUSED_(JESPAN_CONTEXT_(context))
#define JESPAN_REGION(name) JESPAN_UNUSED_(JESPAN_STRING_(name))
#define JESPAN_REGION_OF(site) JESPAN_UNUSED_(JESPAN_SITE_ADDRESS_(site))

#ifdef __cplusplus
extern "C" {
#endif

static inline jespan_span_t *jespan_open(const struct jespan_site *site, jespan_context_t parent,
                                         const struct jespan_label *labels, size_t n_labels)
{
    (void)site, (void)parent, (void)labels, (void)n_labels;
    return (jespan_span_t *)(uintptr_t)1;
}

static inline int jespan_enter(jespan_span_t *span)
{
    (void)span;
    return 0;
}

static inline int jespan_exit(jespan_span_t *span)
{
    (void)span;
    return 0;
}

static inline int jespan_close(jespan_span_t *span)
{
    (void)span;
    return 0;
}

static inline int jespan_ref(jespan_span_t *span)
{
    (void)span;
    return 0;
}

static inline int jespan_unref(jespan_span_t *span)
{
    (void)span;
    return 0;
}

static inline int jespan_add_label(jespan_span_t *span, const struct jespan_label *label)
{
    (void)span, (void)label;
    return 0;
}

static inline jespan_context_t jespan_current(void)
{
    return JESPAN_ROOT;
}

static inline jespan_context_t jespan_attach(jespan_context_t context)
{
    (void)context;
    return JESPAN_ROOT;
}

static inline int jespan_credit(void *ptr, jespan_context_t context)
{
    (void)ptr, (void)context;
    return 0;
}

static inline void jespan_set_sampler(jespan_sampler_t *decide, void *user)
{
    (void)decide, (void)user;
}

/* Nothing is read, so nothing is valid. */
static inline int jespan_parse_traceparent(const char *header, struct jespan_traceparent *out)
{
    (void)header, (void)out;
    return EINVAL;
}

static inline int jespan_publish_trace(const struct jespan_traceparent *trace)
{
    (void)trace;
    return ENOTSUP;
}

static inline void jespan_enter_block(struct jespan_block *block, const struct jespan_site *site,
                                      const char *const *name_and_labels, size_t count)
{
    (void)block, (void)site, (void)name_and_labels, (void)count;
}

static inline void jespan_enter_block_labels(struct jespan_block *block, const struct jespan_site *site,
                                             const struct jespan_label *labels, size_t n_labels)
{
    (void)block, (void)site, (void)labels, (void)n_labels;
}

static inline void jespan_exit_block(struct jespan_block *block)
{
    (void)block;
}

static inline void jespan_enter_credit(struct jespan_block *block, jespan_context_t context)
{
    (void)block, (void)context;
}

static inline void jespan_exit_credit(struct jespan_block *block)
{
    (void)block;
}

static inline void jespan_enter_region(struct jespan_block *block, const struct jespan_site *site)
{
    (void)block, (void)site;
}

static inline void jespan_exit_region(struct jespan_block *block)
{
    (void)block;
}

#ifdef __cplusplus
}
#endif

#endif
#endif
