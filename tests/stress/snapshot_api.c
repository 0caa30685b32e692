/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of <jespan/snapshot.h>: rows, paths, figures and changes of known spans, then from several threads while others
 * allocate.
 *
 * SNAPSHOT_SECONDS: how long the threads run (until each has made LOOKS snapshots, 200). SNAPSHOT_WORKERS: threads that
 * allocate (2). SNAPSHOT_LABELS: values of their label (300); with more than max_contexts, contexts are recycled. */
#include <jespan/snapshot.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"
#include "../support/many_locks.h"

static void *kept[3];

static jespan_context_t hold(int i, size_t bytes)
{
    JESPAN("request", "tenant", "blue");
    JESPAN_WITH("parse\n", JESPAN_LABEL_INT("shard", 7), JESPAN_LABEL("tenant", "blue"));
    kept[i] = F(malloc)(bytes);
    return jespan_current();
}

static const jespan_row_t *find_by_path(const jespan_snapshot_t *s, const char *path)
{
    char text[200];
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(s, row));)
        if (jespan_row_path(s, row, text, sizeof text) && !strcmp(text, path))
            return row;
    return NULL;
}

static void rows(void)
{
    jespan_context_t context = hold(0, 1 << 20);
    jespan_snapshot_t *s = jespan_snapshot_take();
    const jespan_row_t *row = jespan_snapshot_find(s, context), *parent = jespan_row_parent(s, row);
    CHECK(s && row && parent);
    CHECK(find_by_path(s, "request > parse? {shard=7, tenant=blue}") == row);
    CHECK(!strcmp(jespan_row_name(row), "parse\n") && !strcmp(jespan_row_kind(row), "span") && !strcmp(jespan_row_name(parent), "request"));
    CHECK(strstr(jespan_row_file(row), "snapshot_api.c") && jespan_row_line(row) > 0 && !strcmp(jespan_row_target(row), ""));
    CHECK_EQ(jespan_row_context(row), context);
    CHECK_EQ(jespan_row_figure(row, JESPAN_INUSE_BYTES), 1 << 20);
    CHECK_EQ(jespan_row_figure(row, JESPAN_INUSE_OBJECTS), 1);
    CHECK_EQ(jespan_row_figure(row, JESPAN_OPENS), 1);
    CHECK_EQ(jespan_row_figure(parent, JESPAN_INUSE_BYTES), 0);
    CHECK_EQ(jespan_row_total(s, parent, JESPAN_INUSE_BYTES), 1 << 20);
    CHECK(jespan_row_total(s, jespan_snapshot_find(s, JESPAN_ROOT), JESPAN_INUSE_BYTES) >= 1 << 20);
    CHECK(jespan_row_parent(s, jespan_snapshot_find(s, JESPAN_ROOT)) == NULL);
    CHECK(jespan_snapshot_find(s, JESPAN_CURRENT) == jespan_snapshot_find(s, jespan_current()));
    CHECK(jespan_snapshot_time_ns(s) > UINT64_C(1700000000000000000));
    struct jespan_label label;
    CHECK_EQ(jespan_row_n_labels(row), 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(jespan_row_label(row, i, &label), 0);
        CHECK(!strcmp(label.key, "tenant") ? label.type == JESPAN_TYPE_STRING && !strcmp(label.value, "blue")
                                           : label.type == JESPAN_TYPE_INTEGER && label.integer == 7 && !strcmp(label.value, "7"));
    }
    CHECK_EQ(jespan_row_label(row, 2, &label), EINVAL);
    jespan_snapshot_free(s);
}

static void paths_are_cut(void)
{
    static const char whole[] = "request > parse? {shard=7, tenant=blue}";
    jespan_snapshot_t *s = jespan_snapshot_take();
    const jespan_row_t *row = find_by_path(s, whole);
    for (size_t bytes = 0; bytes < sizeof whole + 5; bytes++) {
        char text[64], expected[64];
        memset(text, 'x', sizeof text);
        CHECK_EQ(jespan_row_path(s, row, bytes ? text : NULL, bytes), sizeof whole - 1);
        snprintf(expected, sizeof expected, "%.*s", bytes ? (int)bytes - 1 : 0, whole);
        CHECK(!bytes || !strcmp(text, expected));
        CHECK_EQ(text[bytes], 'x');
    }
    jespan_snapshot_free(s);
}

/* What all contexts have, with those that were recycled, is what the process has. */
static void sums(void)
{
    uint64_t inuse = 0;
    jespan_snapshot_t *s = jespan_snapshot_take();
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(s, row));)
        inuse += jespan_row_figure(row, JESPAN_INUSE_BYTES);
    CHECK_EQ(inuse, jespan_snapshot_figure(s, JESPAN_INUSE_BYTES));
    CHECK(inuse >= 1 << 20);
    jespan_snapshot_free(s);
}

static jespan_context_t be_new(void)
{
    JESPAN("new");
    kept[2] = F(malloc)(5000);
    return jespan_current();
}

static void changes(void)
{
    struct jespan_snapshot_change change = {0};
    jespan_snapshot_t *before = jespan_snapshot_take();
    jespan_context_t context = hold(1, 2 << 20), fresh = be_new();
    F(free)(kept[0]);
    jespan_snapshot_t *after = jespan_snapshot_take();
    unsigned n = 0, n_known = 0;
    for (; jespan_snapshot_next_change(before, after, &change) == 0; n++) {
        if (jespan_row_context(change.after) == context) {
            CHECK(change.before && jespan_row_id(change.before) == jespan_row_id(change.after));
            CHECK_EQ(jespan_change_figure(&change, JESPAN_INUSE_BYTES), 1 << 20);
            CHECK_EQ(jespan_change_figure(&change, JESPAN_ALLOC_BYTES), 2 << 20);
            CHECK_EQ(jespan_change_figure(&change, JESPAN_FREE_OBJECTS), 1);
            n_known++;
        } else if (jespan_row_context(change.after) == fresh) {
            CHECK(!change.before && jespan_change_figure(&change, JESPAN_INUSE_BYTES) >= 5000);
            n_known++;
        }
    }
    CHECK_EQ(n_known, 2);
    CHECK(n <= 4); /* also "request", and perhaps the thread */
    CHECK_EQ(jespan_snapshot_next_change(before, after, &change), ENOENT);
    change = (struct jespan_snapshot_change){0};
    CHECK_EQ(jespan_snapshot_next_change(after, after, &change), ENOENT);
    change = (struct jespan_snapshot_change){0}; /* backwards, the new one is gone */
    int64_t gone = 0;
    while (jespan_snapshot_next_change(after, before, &change) == 0)
        if (!change.after) {
            gone = jespan_change_figure(&change, JESPAN_INUSE_BYTES);
            CHECK_EQ(jespan_change_figure(&change, JESPAN_ALLOC_BYTES), 0);
        }
    CHECK(gone <= -5000);
    jespan_snapshot_free(before);
    jespan_snapshot_free(after);
}

static void wrong_arguments(void)
{
    struct jespan_snapshot_change change = {0};
    jespan_snapshot_t *s = jespan_snapshot_take();
    char text[8] = "x";
    jespan_snapshot_free(NULL);
    errno = 0;
    CHECK(jespan_snapshot_find(s, JESPAN_INVALID) == NULL && errno == ENOENT);
    CHECK(jespan_snapshot_next(NULL, NULL) == NULL && jespan_row_parent(s, NULL) == NULL);
    CHECK(jespan_row_path(s, NULL, text, sizeof text) == 0 && text[0] == '\0' && jespan_row_name(NULL)[0] == '\0');
    CHECK_EQ(jespan_snapshot_next_change(s, NULL, &change), EINVAL);
    CHECK_EQ(jespan_row_figure(NULL, JESPAN_OPENS), 0);
    CHECK_EQ(jespan_snapshot_figure(s, (enum jespan_figure)1000), JESPAN_UNKNOWN);
    jespan_snapshot_free(s);
}

/* ---- Many threads ---- */

/* Each thread holds KEPT objects at most. Contexts are recycled once labels are more than max_contexts; threads with
 * names of their own, and their rows, come and go. */
#define MOST_WORKERS 64
#define KEPT 8
#define MOST_BYTES 4096u /* usable, of an object here */
#define OTHERS_BYTES (UINT64_C(1) << 20) /* of libc, for threads */

static atomic_bool is_over;
static uint64_t n_workers, n_labels, seconds, most_inuse;

static void *pass(void *argument)
{
    char name[16];
    snprintf(name, sizeof name, "guest %u", *(unsigned *)argument % 50);
    pthread_setname_np(pthread_self(), name);
    F(free)(F(malloc)(500));
    return NULL;
}

static void have_a_guest(unsigned i)
{
    pthread_t guest;
    if (pthread_create(&guest, NULL, pass, &i) == 0)
        pthread_join(guest, NULL);
}

static void *work(void *unused)
{
    void *own[KEPT] = {NULL};
    (void)unused;
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        JESPAN_WITH("work", JESPAN_LABEL_INT("n", i % n_labels));
        F(free)(own[i % KEPT]);
        own[i % KEPT] = F(malloc)(100 + i % 3000);
        if (i % 16 == 0)
            jespan_add_label(NULL, &(struct jespan_label)JESPAN_LABEL_INT("later", i % n_labels));
        F(free)(F(malloc)(100 + i % 2000));
        if (i % 4096 == 4095)
            have_a_guest(i / 4096);
    }
    for (unsigned i = 0; i < KEPT; i++)
        F(free)(own[i]);
    return NULL;
}

static void check_rows(const jespan_snapshot_t *s)
{
    CHECK(jespan_snapshot_figure(s, JESPAN_INUSE_BYTES) <= most_inuse);
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(s, row));) {
        char text[100];
        CHECK(jespan_row_figure(row, JESPAN_INUSE_BYTES) <= most_inuse); /* a negative figure is a huge one */
        CHECK(jespan_row_path(s, row, text, sizeof text) > 0);
    }
}

static bool is_due(uint64_t n, time_t begin)
{
    return seconds ? (uint64_t)(time(NULL) - begin) < seconds : n < check_rounds("LOOKS", 200);
}

static void *look(void *looks)
{
    time_t begin = time(NULL);
    jespan_snapshot_t *before = jespan_snapshot_take();
    for (uint64_t n = 0; is_due(n, begin) && !check_result(); n++) {
        struct jespan_snapshot_change change = {0};
        jespan_snapshot_t *after = jespan_snapshot_take();
        while (jespan_snapshot_next_change(before, after, &change) == 0)
            CHECK(!change.before || !change.after || jespan_change_figure(&change, JESPAN_ALLOC_BYTES) >= 0);
        check_rows(after);
        jespan_snapshot_free(before);
        before = after;
        atomic_fetch_add((_Atomic uint64_t *)looks, 1);
    }
    jespan_snapshot_free(before);
    return NULL;
}

static void threads(void)
{
    pthread_t workers[MOST_WORKERS], lookers[3];
    _Atomic uint64_t looks = 0;
    seconds = check_env("SNAPSHOT_SECONDS", 0);
    n_workers = check_env("SNAPSHOT_WORKERS", 2);
    n_labels = check_env("SNAPSHOT_LABELS", 300);
    CHECK(n_workers <= MOST_WORKERS && n_labels > 0);
    most_inuse = ctl_u64("spans.all.inuse_bytes") + n_workers * (KEPT + 1) * MOST_BYTES + OTHERS_BYTES;
    for (uint64_t i = 0; i < n_workers; i++)
        CHECK_EQ(pthread_create(&workers[i], NULL, work, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&lookers[i], NULL, look, &looks), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(lookers[i], NULL);
    atomic_store(&is_over, true);
    for (uint64_t i = 0; i < n_workers; i++)
        pthread_join(workers[i], NULL);
    check_note("%llu snapshots, %llu contexts recycled, %llu opens", (unsigned long long)looks,
               (unsigned long long)ctl_u64("spans.stats.recycled"), (unsigned long long)ctl_u64("spans.all.opens"));
}

static void a_child_reads_on(void)
{
    jespan_snapshot_t *s = jespan_snapshot_take();
    uint64_t inuse = jespan_snapshot_figure(s, JESPAN_INUSE_BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        bool same = jespan_snapshot_figure(s, JESPAN_INUSE_BYTES) == inuse && jespan_snapshot_next(s, NULL);
        jespan_snapshot_free(s);
        s = jespan_snapshot_take();
        _exit(!same || !s);
    }
    CHECK_CHILD(pid);
    jespan_snapshot_free(s);
}

int main(void)
{
    rows();
    paths_are_cut();
    sums();
    changes();
    wrong_arguments();
    threads();
    a_child_reads_on();
    return check_result();
}
