/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of what a report shows. */
#include "report_kind.h"

#include <stddef.h>
#include <string.h>

const struct report_kind report_kinds[PROFILE_N_KINDS] = {
    [PROFILE_HEAP] = {
        .name = "heap",
        .columns = {{"IN USE", REPORT_BYTES, PROFILE_INUSE_BYTES},
                    {"SHARE", REPORT_SHARE, 0},
                    {"OBJECTS", REPORT_COUNT, PROFILE_INUSE_OBJECTS},
                    {"ALLOCATED", REPORT_BYTES, PROFILE_ALLOC_BYTES}},
        .sorts = {{"inuse", PROFILE_INUSE_BYTES}, {"alloc", PROFILE_ALLOC_BYTES}, {"objects", PROFILE_INUSE_OBJECTS}},
        .next = PROFILE_ALLOC_BYTES,
        .own = -1,
    },
    [PROFILE_TIME] = {
        .name = "time",
        .columns = {{"CPU", REPORT_TIME, PROFILE_CPU},
                    {"SHARE", REPORT_SHARE, 0},
                    {"BUSY", REPORT_TIME, PROFILE_BUSY},
                    {"WALL", REPORT_TIME, PROFILE_WALL},
                    {"OPENS", REPORT_COUNT, PROFILE_OPENS},
                    {"MEAN", REPORT_MEAN, 0}},
        .sorts = {{"cpu", PROFILE_CPU}, {"busy", PROFILE_BUSY}, {"wall", PROFILE_WALL}, {"opens", PROFILE_OPENS}},
        .next = PROFILE_BUSY,
        .own = PROFILE_OPENS,
    },
};

int report_kind_sort(const struct report_kind *kind, const char *word)
{
    for (const struct report_sort *sort = kind->sorts; sort->word != NULL; sort++)
        if (strcmp(word, sort->word) == 0)
            return sort->value;
    return -1;
}
