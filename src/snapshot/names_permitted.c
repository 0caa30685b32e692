/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of mallctl that another process may ask the program for.
 *
 * The thread that calls mallctl is any thread of the program, at any place where it allocates or frees. So names of the
 * calling thread are left out, and names that take or return addresses, load modules, write files or need much stack.
 *
 * To add a name, add a row. The first row that fits counts. A name of jemalloc's that is read needs its place in
 * names_outside_asked.c too. */
#include "snapshot/names_permitted.h"

#include <stddef.h>

#include "base/parse.h"

enum { READ = 1, WRITE = 2, CALL = 4 };

static const struct permitted_name permitted_names[] = {
    {"spans.stacks", READ | WRITE, MAILBOX_WORDS},
    {"spans.stacks_min_bytes", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.reset_peaks", CALL, MAILBOX_NOTHING},
    {"spans.version", READ, MAILBOX_WORDS},
    {"spans.epoch", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.count", READ, MAILBOX_UNSIGNED},
    {"spans.stats.otlp.last_error", READ, MAILBOX_WORDS},
    {"spans.stats.pyroscope.last_error", READ, MAILBOX_WORDS},
    {"spans.stats.*", READ, MAILBOX_UNSIGNED},
    {"spans.arenas.*.name", READ, MAILBOX_WORDS},
    {"spans.arenas.*.value", 0, MAILBOX_NOTHING}, /* arrays */
    {"spans.arenas.*.limit_bytes", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.alerts.*.rule", READ, MAILBOX_WORDS},
    {"spans.threads.ids", 0, MAILBOX_NOTHING}, /* an array */
    {"spans.sum.*", 0, MAILBOX_NOTHING}, /* need a path */
    {"spans.*.labels", 0, MAILBOX_NOTHING},
    {"spans.*.ages", 0, MAILBOX_NOTHING},
    {"spans.*.name", READ, MAILBOX_WORDS},
    {"spans.*.target", READ, MAILBOX_WORDS},
    {"spans.*.file", READ, MAILBOX_WORDS},
    {"spans.*.kind", READ, MAILBOX_WORDS},
    {"spans.*.limit_soft", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.*.limit_hard", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.*.*", READ, MAILBOX_UNSIGNED},
    {"version", READ, MAILBOX_WORDS},
    {"epoch", READ | WRITE, MAILBOX_UNSIGNED},
    {"background_thread", READ | WRITE, MAILBOX_UNSIGNED},
    {"max_background_threads", READ | WRITE, MAILBOX_UNSIGNED},
    {"config.malloc_conf", READ, MAILBOX_WORDS},
    {"config.*", READ, MAILBOX_UNSIGNED},
    {"opt.metadata_thp", READ, MAILBOX_WORDS},
    {"opt.dss", READ, MAILBOX_WORDS},
    {"opt.percpu_arena", READ, MAILBOX_WORDS},
    {"opt.stats_*_opts", READ, MAILBOX_WORDS},
    {"opt.junk", READ, MAILBOX_WORDS},
    {"opt.thp", READ, MAILBOX_WORDS},
    {"opt.zero_realloc", READ, MAILBOX_WORDS},
    {"opt.prof_prefix", READ, MAILBOX_WORDS},
    {"opt.stats_interval", READ, MAILBOX_SIGNED},
    {"opt.mutex_max_spin", READ, MAILBOX_SIGNED},
    {"opt.lg_prof_interval", READ, MAILBOX_SIGNED},
    {"opt.*_decay_ms", READ, MAILBOX_SIGNED},
    {"opt.*", READ, MAILBOX_UNSIGNED},
    {"arena.*.purge", CALL, MAILBOX_NOTHING},
    {"arena.*.decay", CALL, MAILBOX_NOTHING},
    {"arena.*.dirty_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arena.*.muzzy_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arena.*.retain_grow_limit", READ | WRITE, MAILBOX_UNSIGNED},
    {"arena.*.initialized", READ, MAILBOX_UNSIGNED},
    {"arena.*.dss", READ, MAILBOX_WORDS},
    {"arenas.dirty_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arenas.muzzy_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arenas.n*", READ, MAILBOX_UNSIGNED},
    {"arenas.quantum", READ, MAILBOX_UNSIGNED},
    {"arenas.page", READ, MAILBOX_UNSIGNED},
    {"arenas.tcache_max", READ, MAILBOX_UNSIGNED},
    {"arenas.bin.*", READ, MAILBOX_UNSIGNED},
    {"arenas.lextent.*", READ, MAILBOX_UNSIGNED},
    {"prof.active", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.gdump", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.thread_active_init", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.lg_sample", READ, MAILBOX_UNSIGNED},
    {"prof.interval", READ, MAILBOX_UNSIGNED},
    {"stats.mutexes.reset", CALL, MAILBOX_NOTHING},
    {"stats.arenas.*.dss", READ, MAILBOX_WORDS},
    {"stats.arenas.*_decay_ms", READ, MAILBOX_SIGNED},
    {"stats.*", READ, MAILBOX_UNSIGNED},
};

const struct permitted_name *names_permitted_find(const char *name, uint32_t verb)
{
    static const unsigned needed[] = {[MAILBOX_GET] = READ, [MAILBOX_SET] = WRITE, [MAILBOX_CALL] = CALL};
    if (verb < MAILBOX_GET || verb > MAILBOX_CALL)
        return NULL;
    for (size_t i = 0; i < sizeof permitted_names / sizeof permitted_names[0]; i++)
        if (pattern_fits(permitted_names[i].pattern, name))
            return permitted_names[i].access & needed[verb] ? &permitted_names[i] : NULL;
    return NULL;
}
