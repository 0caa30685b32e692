/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle with span arenas and limits. The configuration gives nearly every context an allocation policy, and the
 * figures are as exact. The test also asks jemalloc in which arena each live object lies. jemalloc's objects and bytes
 * there equal the figures of the span arena.
 *
 * ORACLE_OPS, ORACLE_SEED: as for the oracle; 2,000,000 operations by default. With fewer than 20,000, some arenas have no object in
 * the first rounds, and no index.
 */
static void check_arenas(const char *where);
#define ORACLE_CHECK_MORE check_arenas
#define ORACLE_OPS 2000000
#include "oracle.c"

#include "../support/arenas.h"

#define ARENAS 6
extern const char *jespan_conf;
const char *jespan_conf = "max_arenas:6,max_limits:60000,"
                          "arena:accept|parse=by:tenant|query=alone|cache=off|render=wiped+decay:0|sync=nohuge,"
                          "limit:scope=1T|parse=512G|accept=2T|worker*=1T";

struct held {
    uint64_t index, objects, bytes; /* jemalloc's index of the arena, and what it holds */
};

static void add_object(struct held held[ARENAS + 1], const struct object *o)
{
    uint64_t index = o->p ? arena_of_object(o->p) : 0;
    for (uint32_t arena = 1; index && arena <= ARENAS; arena++)
        if (held[arena].index == index) {
            held[arena].objects++;
            held[arena].bytes += o->usable;
        }
}

static void check_arena(uint32_t arena, const struct held *held, const char *where)
{
    char name[64];
    uint64_t allocated = 0;
    arena_check_inuse(arena, held->objects, held->bytes, where);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "stats.arenas.%u.%s.allocated", (unsigned)held->index, i ? "small" : "large");
        allocated += ctl_u64(name);
    }
    CHECK_EQ(allocated, held->bytes + arena_figure(arena, "cached_bytes"));
    CHECK_EQ(arena_figure(arena, "mapped_bytes"), arena_figure(arena, "active_bytes") + arena_figure(arena, "dirty_bytes") +
                                                      arena_figure(arena, "muzzy_bytes") + arena_figure(arena, "retained_bytes"));
}

/* After the last round there is no thread left that could have a cache. */
static void check_caches_are_gone(uint32_t arena)
{
    CHECK_EQ(arena_figure(arena, "cached_bytes"), 0);
    CHECK_EQ(arena_figure(arena, "inuse_bytes"), 0);
    CHECK(arena_figure(arena, "alloc_objects") > 0);
}

static void check_arenas(const char *where)
{
    struct held held[ARENAS + 1] = {{0}};
    CHECK_EQ(ctl_u64("spans.arenas.count"), ARENAS);
    CHECK_EQ(ctl_u64("spans.stats.tcache_fallbacks"), 0);
    CHECK(ctl_u64("spans.stats.limits") > 50); /* those of shared spans; passing spans add theirs */
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), 0);
    for (uint32_t arena = 1; arena <= ARENAS; arena++)
        held[arena].index = arena_figure(arena, "index");
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 0; k < SLOTS; k++)
            add_object(held, &workers[i].slots[k]);
        for (unsigned k = 0; k < workers[i].queued; k++)
            add_object(held, &workers[i].queue[k]);
    }
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    ctl_refresh();
    for (uint32_t arena = 1; arena <= ARENAS; arena++) {
        check_arena(arena, &held[arena], where);
        if (!strcmp(where, "everything freed"))
            check_caches_are_gone(arena);
    }
}
