/* SPDX-License-Identifier: BSD-2-Clause */
/* What made a context. */
#ifndef JESPAN_KIND_H
#define JESPAN_KIND_H

enum context_kind {
    CONTEXT_ROOT,   /* "(root)", id 1 */
    CONTEXT_SELF,   /* "(jespan)": jespan's own threads, reporters and exporters, id 2 */
    CONTEXT_THREAD, /* "thread:NAME": allocations of a thread outside any span */
    CONTEXT_SPAN,
    CONTEXT_UNSAMPLED, /* "(unsampled)": spans that a sampler declined, id 3 */
    CONTEXT_PERIOD, /* a child of any other context, for memory allocated in one period: age.h */
    CONTEXT_STACK,  /* a child of any other context, for memory allocated from one stack of calls: stack_context.h */
};

static inline const char *kind_text(enum context_kind kind)
{
    static const char *const texts[] = {"root", "jespan", "thread", "span", "unsampled", "period", "stack"};
    return texts[kind];
}

#endif
