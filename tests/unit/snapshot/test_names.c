/* SPDX-License-Identifier: BSD-2-Clause */
/* Each name of mallctl that another process may read is in the books, or the program is asked for it. Wrong names are
 * neither. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/family.h"
#include "ctl/ctl.h"
#include "snapshot/names_outside.h"
#include "snapshot/names_permitted.h"
#include "snapshot/view.h"

static struct view *view;
static struct snapshot *snapshot;

static bool is_known(const char *name)
{
    struct mailbox_answer answer;
    return names_outside_get(view, snapshot, name, &answer) != -EOPNOTSUPP || names_outside_is_asked(name);
}

static unsigned checked;

static void check_table(const char *before, const struct ctl_name *names, const struct ctl_group *groups)
{
    char name[200];
    for (size_t i = 0; names[i].name; i++) {
        snprintf(name, sizeof name, "%s%s", before, names[i].name);
        if (names_permitted_find(name, MAILBOX_GET) && !is_known(name))
            fail_msg("%s is neither in the books nor asked for", name);
        checked++;
    }
    for (; groups && groups->names; groups++) {
        snprintf(name, sizeof name, "%s%s.", before, groups->name ? groups->name : "1");
        check_table(name, groups->names, groups->groups);
        if (!groups->name && strcmp(before, "spans.") == 0)
            check_table("spans.3.", groups->names, groups->groups);
    }
}

static void test_names_of_jespan_are_known(void **state)
{
    (void)state;
    check_table("spans.", ctl_top_names, ctl_groups);
    assert_in_range(checked, 200, 1000);
}

/* One of each group of jemalloc's. */
static void test_names_of_jemalloc_are_known(void **state)
{
    static const char *const names[] = {
        "version", "epoch", "config.xmalloc", "opt.abort", "opt.zero_realloc", "arena.0.dss", "arena.4096.initialized", "arenas.nbins",
        "arenas.bin.3.slab_size", "arenas.lextent.0.size", "prof.active", "stats.allocated", "stats.zero_reallocs",
        "stats.background_thread.num_runs", "stats.mutexes.ctl.num_wait", "stats.arenas.0.nthreads", "stats.arenas.0.hpa_sec_bytes",
        "stats.arenas.0.small.nflushes", "stats.arenas.4096.large.allocated", "stats.arenas.0.mutexes.tcache_list.max_num_thds",
        "stats.arenas.0.bins.1.nonfull_slabs", "stats.arenas.0.bins.1.mutex.num_ops", "stats.arenas.0.lextents.1.curlextents",
        "stats.arenas.0.extents.1.muzzy_bytes", "stats.arenas.0.hpa_shard.nhugifies",
        "stats.arenas.0.hpa_shard.full_slabs.ndirty_huge", "stats.arenas.0.hpa_shard.nonfull_slabs.1.npageslabs_nonhuge"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!names_outside_is_asked(names[i]))
            fail_msg("%s is unknown", names[i]);
}

static void test_wrong_names_are_not_known(void **state)
{
    static const char *const names[] = {
        "", ".", "fish", "stats.", "stats.alocated", "stats.allocated.", "stats.allocated metadata", "stats.allocate", "tats.allocated",
        "opt", "opt.", "opt.abort_", "opt.abort.x", "arena..dss", "arena.x.dss", "stats.arenas.0.bins.1.mutex.", "stats.mutexes..num_ops",
        "spans.", "spans.fish", "spans.stats.fish", "spans.all.fish", "spans.1.fish", "spans.1.total.name", "spans.3.fish",
        "spans.3.total.name", "spans.3.labels", "spans.arenas.1.fish", "spans.retired.open", "thread.arena", "prof.dump", "arena.0.purge"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mailbox_answer answer;
        if (names_outside_is_asked(names[i]))
            fail_msg("%s is asked for", names[i]);
        if (!names_outside_get(view, snapshot, names[i], &answer))
            fail_msg("%s has a value", names[i]);
    }
}

static int open_view(void **state)
{
    boot(state);
    int error = view_open(&view, getpid());
    if (!error)
        snapshot = view_snapshot(view, NULL);
    return error == -EPERM ? 0 : !snapshot;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_jespan_are_known),
        cmocka_unit_test(test_names_of_jemalloc_are_known),
        cmocka_unit_test(test_wrong_names_are_not_known),
    };
    open_view(NULL);
    if (!snapshot)
        return 77; /* this system lets no process read another */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snapshot_free(snapshot);
    view_close(view);
    return failed;
}
