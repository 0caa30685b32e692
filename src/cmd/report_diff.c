/* SPDX-License-Identifier: BSD-2-Clause */
/* The difference of two profiles: rows that stand for the same are found by their hash. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* Turns the values of a row into a change, and keeps those before. */
static int set_change(struct report_rows *rows, struct report_row *row, const int64_t before[PROFILE_N_VALUES])
{
    struct report_values *second = report_rows_second(rows, row);
    if (!second)
        return -ENOMEM;
    memcpy(second->of, before, sizeof second->of);
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        row->values[i] = report_difference(row->values[i], before[i]);
    return 0;
}

int report_diff(struct report_rows *rows, struct report_rows *before, struct report_rows *after)
{
    static const int64_t nothing[PROFILE_N_VALUES];
    uint32_t n = after->n;
    int error = 0;
    *rows = *after;
    memset(after, 0, sizeof *after);
    for (uint32_t i = 0; i < n && error == 0; i++) {
        const struct report_row *old = report_rows_find(before, rows->items[i].hash);
        rows->items[i].input = 1;
        rows->items[i].second = 0;
        error = set_change(rows, &rows->items[i], old ? old->values : nothing);
    }
    for (uint32_t i = 0; i < before->n && error == 0; i++) {
        if (report_rows_find(rows, before->items[i].hash))
            continue;
        uint32_t added = report_rows_add(rows, before->items[i].hash, before->items[i].place);
        error = added == REPORT_NONE ? -ENOMEM : set_change(rows, &rows->items[added], before->items[i].values);
    }
    return error == 0 ? set_change(rows, &rows->all, before->all.values) : error;
}
