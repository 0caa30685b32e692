/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays: items stay, the room doubles, and a size that cannot be leaves the array as it is. */
#include "base/array.h"

#include <stdint.h>

#include "../../support/check.h"

static void check_growth(void)
{
    uint32_t *items = NULL;
    size_t room = 0, moves = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        size_t before = room;
        CHECK_EQ(array_reserve(&items, &room, i + (size_t)1, sizeof *items), 0);
        CHECK(room > i);
        moves += room != before;
        items[i] = i;
    }
    CHECK(moves < 12); /* 1 KiB doubles 9 times */
    for (uint32_t i = 0; i < 100000; i++)
        CHECK_EQ(items[i], i);
    free(items);
}

static void check_sizes(void)
{
    struct large {
        char bytes[5000];
    } *items = NULL;
    size_t room = 0;
    CHECK_EQ(array_reserve(&items, &room, 0, sizeof *items), 0);
    CHECK(!items && room == 0);
    CHECK_EQ(array_reserve(&items, &room, 3, sizeof *items), 0);
    CHECK_EQ(room, 3);
    struct large *before = items;
    CHECK_EQ(array_reserve(&items, &room, 2, sizeof *items), 0);
    CHECK_EQ(array_reserve(&items, &room, SIZE_MAX, sizeof *items), -ENOMEM);
    CHECK(items == before && room == 3);
    free(items);
}

int main(void)
{
    check_growth();
    check_sizes();
    return check_result();
}
