/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of <jespan/snapshot.h>: rows, paths, figures and changes of known spans, then from several threads while others
 * allocate. */
#include <jespan/snapshot.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"

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

static atomic_bool is_over;

static void *work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        JESPAN_WITH("work", JESPAN_LABEL_INT("n", i % 300));
        F(free)(F(malloc)(100 + i % 3000));
    }
    return NULL;
}

static void *look(void *unused)
{
    (void)unused;
    jespan_snapshot_t *before = jespan_snapshot_take();
    for (uint64_t i = 0, n = check_rounds("LOOKS", 200); i < n; i++) {
        struct jespan_snapshot_change change = {0};
        jespan_snapshot_t *after = jespan_snapshot_take();
        while (jespan_snapshot_next_change(before, after, &change) == 0)
            CHECK(!change.before || !change.after || jespan_change_figure(&change, JESPAN_ALLOC_BYTES) >= 0);
        for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(after, row));) {
            char text[100];
            CHECK((int64_t)jespan_row_figure(row, JESPAN_INUSE_BYTES) >= 0);
            CHECK(jespan_row_path(after, row, text, sizeof text) > 0);
        }
        jespan_snapshot_free(before);
        before = after;
    }
    jespan_snapshot_free(before);
    return NULL;
}

static void threads(void)
{
    pthread_t workers[2], lookers[3];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&workers[i], NULL, work, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&lookers[i], NULL, look, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(lookers[i], NULL);
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
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
