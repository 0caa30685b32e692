/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that looks at itself: it prints which spans hold memory, and which grew while it worked. docs/snapshots.md
 * explains it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jespan/snapshot.h>

static void *volatile kept;

static void answer(int number)
{
    JESPAN("request", "tenant", number % 2 ? "acme" : "globex");
    void *page = malloc(4000);
    if (number % 10 == 0) {
        JESPAN("cache");
        kept = malloc(20000);
    }
    free(page);
}

static void print_holders(const jespan_snapshot_t *s)
{
    char path[200];
    for (const jespan_row_t *row = NULL; (row = jespan_snapshot_next(s, row));) {
        uint64_t bytes = jespan_row_figure(row, JESPAN_INUSE_BYTES);
        jespan_row_path(s, row, path, sizeof path);
        if (bytes > 100000)
            printf("%" PRIu64 " bytes in use by %s\n", bytes, path);
    }
}

static void print_growth(const jespan_snapshot_t *before, const jespan_snapshot_t *after)
{
    char path[200];
    struct jespan_snapshot_change change = {0};
    while (jespan_snapshot_next_change(before, after, &change) == 0) {
        int64_t bytes = jespan_change_figure(&change, JESPAN_INUSE_BYTES);
        if (bytes > 0 && jespan_row_path(after, change.after, path, sizeof path))
            printf("%" PRId64 " bytes more in %s\n", bytes, path);
    }
}

int main(void)
{
    for (int i = 0; i < 1000; i++)
        answer(i);
    jespan_snapshot_t *before = jespan_snapshot_take();
    for (int i = 0; i < 500; i++)
        answer(i);
    jespan_snapshot_t *after = jespan_snapshot_take();
    if (!before || !after) {
        perror("jespan_snapshot_take");
        return 1;
    }
    print_holders(after);
    print_growth(before, after);
    jespan_snapshot_free(before);
    jespan_snapshot_free(after);
    return 0;
}
