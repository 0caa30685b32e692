/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks with more different labels than a thread remembers, on several threads, while contexts that nothing refers to are recycled and
 * their numbers are given to others. Each object belongs to the context that has the label of its block.
 *
 * ROUNDS: blocks of each thread (200,000). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../support/spans.h"

extern const char *jespan_conf;
const char *jespan_conf = "max_contexts:8192,contexts_kept:2000";

enum { THREADS = 4, VALUES = 700, KINDS = 3 };

static void *_Atomic held[KINDS][VALUES]; /* at most one live object of each block */

/* Its bytes tell the value, too. */
static size_t bytes_of(unsigned value)
{
    return 16 + value % 100 * 8;
}

static void *allocate(unsigned value, bool keeps)
{
    void *p = opaque_pointer(F(malloc)(bytes_of(value)));
    CHECK(p != NULL);
    if (keeps)
        return p;
    F(free)(p);
    return NULL;
}

static void *in_block(unsigned kind, unsigned value, bool keeps)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    if (kind == 0) {
        JESPAN("text", "value", text);
        return allocate(value, keeps);
    }
    if (kind == 1) {
        JESPAN_WITH("number", JESPAN_LABEL_INT("value", value));
        return allocate(value, keeps);
    }
    JESPAN("outer", "value", text);
    JESPAN("inner");
    return allocate(value, keeps);
}

static void *work(void *seed)
{
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0, n = check_rounds("ROUNDS", 200000); i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned kind = (unsigned)(random >> 40) % KINDS, value = (unsigned)(random >> 20 & 0xfffff) % VALUES;
        F(free)(atomic_exchange(&held[kind][value], in_block(kind, value, random >> 62 == 0)));
    }
    return NULL;
}

static unsigned value_of(uint32_t context)
{
    static const char key[] = "value";
    char labels[64] = "";
    size_t bytes = sizeof labels;
    char name[64];
    CHECK_EQ(F(mallctl)(ctl_span_name(name, sizeof name, context, "labels"), labels, &bytes, NULL, 0), 0);
    CHECK(strcmp(labels, key) == 0);
    return (unsigned)atoi(labels + sizeof key);
}

/* Returns the number of objects in use. */
static uint64_t check_context(uint32_t context)
{
    static const char *const names[KINDS] = {"text", "number", "inner"};
    unsigned kind = 0;
    while (kind < KINDS && strcmp(ctl_span_text(context, "name"), names[kind]) != 0)
        kind++;
    if (kind == KINDS)
        return 0;
    unsigned value = value_of(kind == 2 ? (uint32_t)ctl_span(context, "parent") : context);
    const void *p = value < VALUES ? atomic_load(&held[kind][value]) : NULL;
    spans_check_inuse(context, p != NULL, p ? F(malloc_usable_size)((void *)(uintptr_t)p) : 0, names[kind]);
    CHECK_EQ(ctl_span(context, "enters") == 0, false);
    return p != NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    spans_check_sums("at the end");
    uint64_t found = 0, expected = 0;
    for (size_t i = 0, n = spans_list(); i < n; i++)
        found += check_context(spans_ids[i]);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned value = 0; value < VALUES; value++)
            expected += atomic_load(&held[kind][value]) != NULL;
    CHECK_EQ(found, expected);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK(ctl_u64("spans.stats.recycled") > 1000);
    check_note("%llu of %d objects live, %llu contexts recycled", (unsigned long long)found, KINDS * VALUES,
               (unsigned long long)ctl_u64("spans.stats.recycled"));
    return check_result();
}
