/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows, and reading them as they are in the file. */
#include "report_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS (1u << 26) /* bounds memory */

static int64_t sum(int64_t a, int64_t b)
{
    int64_t result;
    return !__builtin_add_overflow(a, b, &result) ? result : a < 0 ? INT64_MIN : INT64_MAX;
}

void report_row_add(struct report_row *to, const int64_t values[PROFILE_N_VALUES], int but_for)
{
    for (int i = 0; i < PROFILE_N_VALUES; i++)
        if (i != but_for)
            to->values[i] = sum(to->values[i], values[i]);
}

static int reserve(struct report_rows *rows)
{
    if (rows->n < rows->capacity)
        return 0;
    uint32_t capacity = rows->capacity == 0 ? 64 : rows->capacity * 2;
    struct report_row *items = capacity > MAX_ROWS ? NULL : realloc(rows->items, capacity * sizeof *items);
    if (items == NULL)
        return -ENOMEM;
    rows->items = items;
    rows->capacity = capacity;
    return 0;
}

uint32_t report_rows_add(struct report_rows *rows, struct report_place place)
{
    if (reserve(rows) != 0)
        return UINT32_MAX;
    rows->items[rows->n] = (struct report_row){.place = place};
    return rows->n++;
}

int report_rows_read(struct report_rows *rows, const struct profile *profile)
{
    memset(rows, 0, sizeof *rows);
    for (uint32_t i = 0; i < profile->samples.n; i++) {
        int64_t values[PROFILE_N_VALUES];
        uint32_t row = report_rows_add(rows, (struct report_place){.sample = i});
        if (row == UINT32_MAX)
            return -ENOMEM;
        profile_values(profile, i, values);
        report_row_add(&rows->items[row], values, -1);
        report_row_add(&rows->all, values, -1);
    }
    return 0;
}

void report_rows_free(struct report_rows *rows)
{
    free(rows->items);
}
