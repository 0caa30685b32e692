/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan top URL` of a program that answers whatever it likes. The input is the answer. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "command_parts.h"
#include "fuzz.h"
#include "snapshot/row_path.h"
#include "src/top/top.h"

static void check_rows(const struct snapshot *s)
{
    char path[1024];
    for (uint32_t i = 0; i < s->n_rows && i < 100; i++) {
        FUZZ_REQUIRE(s->rows[i].parent_row < s->n_rows && (i == 0 || s->rows[i].parent_row != i));
        row_path(path, sizeof path, s, i);
    }
}

/* The memory has the size of the answer, so that AddressSanitizer sees what is read beyond it. */
static void fuzz_one(const uint8_t *data, size_t bytes)
{
    static struct top top;
    char *text = malloc(bytes ? bytes : 1);
    FUZZ_REQUIRE(text);
    memcpy(text, data, bytes);
    const char *reason = top_url_parse(&top, text, bytes);
    FUZZ_REQUIRE(!reason || *reason);
    if (!reason)
        check_rows(top.snapshot);
}

static void fuzz_begin(void)
{
}
