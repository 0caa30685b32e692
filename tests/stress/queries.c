/* SPDX-License-Identifier: BSD-2-Clause */
/* Every kind of question from several threads at once, while others allocate, open spans with labels that come and go, free each
 * other's objects and end. What is asked: all names of spans.*, by their MIBs; jemalloc's names; snapshots
 * and their changes; dumps; malloc_stats_print(). What is changed meanwhile: peaks, stacks, limits, jemalloc's settings.
 * At the end, when all is freed, each figure is what it must be. Builds with --enable-sanitizer=thread find races.
 *
 * QUERIES: how many questions each thread asks (60). */
#define _GNU_SOURCE
#include <jespan/jespan.h>
#include <jespan/limit.h>
#include <jespan/snapshot.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../support/alert_thread.h"
#include "../support/ctl.h"
#include "../support/many_locks.h"
#include "../support/objects.h"

extern const char *jespan_conf;
const char *jespan_conf = "max_contexts:600,max_stacks:4800,contexts_kept:100,stacks_sample_bytes:2000,"
                          "alert:inuse(work)>10K|growth(part)>1M/min,arena:own,limit:part=900M,age_period_s:1,reading_interval_ms:5";

enum { WORKERS = 3, ASKERS = 5, SLOTS = 200, LABELS = 400, SOME_ROWS = 8, MAX_ROWS = 45 };

static _Atomic(void *) slots[SLOTS]; /* any thread frees what another has put there */
static atomic_bool is_over;
static atomic_ulong n_answers, n_refused;

/* ---- Those who work ---- */

static void put(struct random *r)
{
    size_t bytes = random_below(r, 20) ? 1 + random_below(r, 800) : 20000;
    F(free)(atomic_exchange(&slots[random_below(r, SLOTS)], F(malloc)(bytes)));
}

static void *pass(void *random)
{
    char name[16];
    struct random *r = random;
    snprintf(name, sizeof name, "guest %u", (unsigned)random_below(r, 30));
    pthread_setname_np(pthread_self(), name);
    put(r);
    return NULL;
}

static void have_a_guest(struct random *r)
{
    pthread_t guest;
    if (pthread_create(&guest, NULL, pass, r) == 0)
        pthread_join(guest, NULL);
}

static void *work(void *seed)
{
    struct random r = {(uint64_t)(uintptr_t)seed};
    while (!atomic_load(&is_over)) {
        if (random_below(&r, 500) == 0)
            have_a_guest(&r); /* libc keeps what it allocates for a thread */
        JESPAN_WITH("work", JESPAN_LABEL_INT("n", (int64_t)random_below(&r, LABELS)));
        put(&r);
        {
            JESPAN("part");
            put(&r);
            if (random_below(&r, 3) == 0) {
                JESPAN_WITH("own", JESPAN_LABEL_INT("later", (int64_t)random_below(&r, LABELS)));
                put(&r);
            }
        }
    }
    return NULL;
}

/* ---- Names by their MIBs ---- */

/* A read may be refused, as names that only take a value refuse it, but not with an error of another kind. */
static void count_answer(int error)
{
    CHECK(error == 0 || error == EPERM || error == EINVAL || error == ENOENT);
    atomic_fetch_add(error ? &n_refused : &n_answers, 1);
}

static void read_by_mib(const size_t *mib, size_t length)
{
    char value[4096];
    size_t bytes = 8;
    int error = F(mallctlbymib)(mib, length, value, &bytes, NULL, 0);
    if (error == EINVAL) { /* an array */
        bytes = sizeof value;
        error = F(mallctlbymib)(mib, length, value, &bytes, NULL, 0);
    }
    count_answer(error);
}

/* Some names of the table that `name` is in, whichever they are. The numbers of contexts, arenas and alerts are at mib[place]. */
static void read_table(struct random *r, const char *name, unsigned place, size_t number)
{
    size_t mib[4], length = 4;
    int error = F(mallctlnametomib)(name, mib, &length);
    CHECK_EQ(error, 0);
    if (error)
        return;
    if (place)
        mib[place] = number;
    for (unsigned i = 0; i < SOME_ROWS; i++) {
        mib[length - 1] = random_below(r, MAX_ROWS);
        read_by_mib(mib, length);
    }
}

static uint32_t any_context(struct random *r)
{
    uint32_t ids[700];
    size_t bytes = sizeof ids;
    CHECK_EQ(F(mallctl)("spans.ids", ids, &bytes, NULL, 0), 0);
    return ids[random_below(r, bytes / sizeof ids[0])];
}

/* ---- Questions ---- */

static void ask_context(struct random *r)
{
    read_table(r, "spans.1.name", 1, any_context(r));
}

static void ask_total(struct random *r)
{
    read_table(r, "spans.1.total.inuse_bytes", 1, any_context(r));
}

static void ask_figures(struct random *r)
{
    static const char *const tables[] = {"spans.all.inuse_bytes", "spans.retired.inuse_bytes", "spans.stats.contexts",
                                         "spans.stats.stacks.stacks", "spans.arenas.count", "spans.alerts.count"};
    read_table(r, tables[random_below(r, sizeof tables / sizeof tables[0])], 0, 0);
}

static void ask_thread(struct random *r)
{
    uint32_t ids[64];
    size_t bytes = sizeof ids;
    CHECK_EQ(F(mallctl)("spans.threads.ids", ids, &bytes, NULL, 0), 0);
    read_table(r, "spans.threads.1.alloc_bytes", 2, ids[random_below(r, bytes / sizeof ids[0])]);
}

static void ask_arena_or_alert(struct random *r)
{
    if (random_below(r, 3) == 0)
        ask_thread(r);
    else if (random_below(r, 2))
        read_table(r, "spans.arenas.1.inuse_bytes", 2, 1 + random_below(r, ctl_u64("spans.arenas.count") + 1));
    else
        read_table(r, "spans.alerts.1.bytes", 2, 1 + random_below(r, 3));
}

/* The names of spans.NAME: without those that do something, which ask_change() and others call. */
static void ask_top(struct random *r)
{
    static const char *const names[] = {"spans.version", "spans.epoch", "spans.count", "spans.ids", "spans.stacks",
                                        "spans.stacks_min_bytes", "spans.outlived"};
    size_t mib[4], length = 4;
    CHECK_EQ(F(mallctlnametomib)(names[random_below(r, sizeof names / sizeof names[0])], mib, &length), 0);
    read_by_mib(mib, length);
    ctl_refresh();
}

static void ask_jemalloc(struct random *r)
{
    static const char *const names[] = {"version", "stats.allocated", "stats.resident", "arenas.narenas", "opt.narenas", "thread.allocated",
                                        "thread.deallocated", "stats.arenas.0.small.nmalloc", "stats.arenas.4096.pdirty",
                                        "arena.0.dirty_decay_ms", "background_thread", "stats.mutexes.ctl.num_ops"};
    char value[16];
    for (size_t bytes = 8; bytes > 0; bytes = bytes == 8 ? 4 : bytes == 4 ? 1 : 0) {
        size_t n = bytes;
        int error = F(mallctl)(names[random_below(r, sizeof names / sizeof names[0])], value, &n, NULL, 0);
        CHECK(error == 0 || error == EINVAL || error == ENOENT);
    }
}

static void ask_snapshot(struct random *r)
{
    struct jespan_snapshot_change change = {0};
    jespan_snapshot_t *before = jespan_snapshot_take();
    put(r);
    jespan_snapshot_t *after = jespan_snapshot_take();
    CHECK(before && after);
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(after, row));) {
        char text[200];
        CHECK(jespan_row_path(after, row, text, sizeof text) > 0);
        CHECK(jespan_row_figure(row, JESPAN_INUSE_BYTES) < UINT64_C(1) << 40); /* a negative figure is a huge one */
        CHECK(jespan_row_total(after, row, JESPAN_ALLOC_OBJECTS) >= jespan_row_figure(row, JESPAN_ALLOC_OBJECTS));
    }
    while (jespan_snapshot_next_change(before, after, &change) == 0)
        CHECK(!change.before || !change.after || jespan_change_figure(&change, JESPAN_ALLOC_BYTES) >= 0);
    jespan_snapshot_free(before);
    jespan_snapshot_free(after);
}

static void ask_dump(struct random *r)
{
    const char *path = "/dev/null";
    int error = F(mallctl)(random_below(r, 3) ? "spans.dump" : "spans.dump_time", NULL, NULL, &path, sizeof path);
    CHECK(error == 0 || (error == ENOPKG && !FAMILY_INTERPOSED)); /* the modules are not built with sanitizers */
}

static void count_text(void *bytes, const char *text)
{
    *(size_t *)bytes += strlen(text);
}

static void ask_print(struct random *r)
{
    size_t bytes = 0;
    F(malloc_stats_print)(count_text, &bytes, random_below(r, 2) ? "Jmdablxe" : "mdablxe");
    CHECK(bytes > 500);
}

/* ---- Changes ---- */

static void change_stacks(struct random *r)
{
    static const char *const modes[] = {"off", "sampled", "all", "all@part", "sampled@guest*|own"};
    const char *mode = modes[random_below(r, 5)], *was = NULL;
    size_t bytes = sizeof was;
    uint64_t least = random_below(r, 2) * 200;
    CHECK_EQ(F(mallctl)("spans.stacks", &was, &bytes, &mode, sizeof mode), 0);
    CHECK(was && (!strncmp(was, "off", 3) || !strncmp(was, "all", 3) || !strncmp(was, "sampled", 7)));
    CHECK_EQ(F(mallctl)("spans.stacks_min_bytes", NULL, NULL, &least, sizeof least), 0);
}

static void change_limits(struct random *r)
{
    char name[64];
    uint32_t id = any_context(r);
    uint64_t limit = random_below(r, 2) ? UINT64_C(1) << 40 : 0;
    int error = F(mallctl)(ctl_span_name(name, sizeof name, id, "limit_hard"), NULL, NULL, &limit, sizeof limit);
    CHECK(error == 0 || error == ENOENT || error == EINVAL); /* it was recycled; it is one of jespan's own */
}

static void change_others(struct random *r)
{
    ssize_t ms = (ssize_t)random_below(r, 3) - 1;
    switch (random_below(r, 4)) {
    case 0:
        CHECK_EQ(F(mallctl)("spans.reset_peaks", NULL, NULL, NULL, 0), 0);
        break;
    case 1:
        CHECK_EQ(F(mallctl)("arena.0.dirty_decay_ms", NULL, NULL, &ms, sizeof ms), 0);
        break;
    case 2:
        CHECK_EQ(F(mallctl)("arena." ARENAS_ALL ".purge", NULL, NULL, NULL, 0), 0);
        break;
    default:
        CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    }
}

static void *ask(void *seed)
{
    static void (*const all[])(struct random *) = {ask_context,  ask_total, ask_figures, ask_arena_or_alert, ask_top,       ask_jemalloc,
                                                   ask_snapshot, ask_dump,  ask_print,   change_stacks,      change_limits, change_others};
    struct random r = {(uint64_t)(uintptr_t)seed};
    for (uint64_t i = 0, n = check_rounds("QUERIES", 60); i < n; i++)
        all[(i + (uintptr_t)seed) % (sizeof all / sizeof all[0])](&r);
    return NULL;
}

/* ---- The end ---- */

static void all_is_freed(void)
{
    uint64_t inuse = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        F(free)(atomic_exchange(&slots[i], NULL));
    jespan_snapshot_t *s = jespan_snapshot_take();
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(s, row));) {
        bool is_work = !strcmp(jespan_row_kind(row), "span") || !strncmp(jespan_row_name(row), "thread:guest", 12);
        if (is_work && jespan_row_figure(row, JESPAN_INUSE_BYTES))
            check_fail("%s has %llu bytes", jespan_row_name(row), (unsigned long long)jespan_row_figure(row, JESPAN_INUSE_BYTES));
        inuse += jespan_row_figure(row, JESPAN_INUSE_BYTES);
    }
    CHECK_EQ(inuse, jespan_snapshot_figure(s, JESPAN_INUSE_BYTES));
    CHECK_EQ(inuse, ctl_u64("spans.all.inuse_bytes"));
    jespan_snapshot_free(s);
    ctl_await_identity("at the end");
}

int main(void)
{
    pthread_t workers[WORKERS], askers[ASKERS];
    start_alert_thread();
    CHECK_EQ(ctl_u64("spans.alerts.count"), 2);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&workers[i], NULL, work, (void *)(i + 1)), 0);
    for (uintptr_t i = 0; i < ASKERS; i++)
        CHECK_EQ(pthread_create(&askers[i], NULL, ask, (void *)(i + 100)), 0);
    for (unsigned i = 0; i < ASKERS; i++)
        pthread_join(askers[i], NULL);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    all_is_freed();
    check_note("%lu answers, %lu refused, %llu contexts recycled, %llu dumps", atomic_load(&n_answers), atomic_load(&n_refused),
               (unsigned long long)ctl_u64("spans.stats.recycled"), (unsigned long long)ctl_u64("spans.stats.dumps"));
    return check_result();
}
