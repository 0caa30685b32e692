/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts with the most bytes in use. */
#include "snapshot/top_holders.h"

#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "snapshot/reading.h"
#include "span/context_path.h"
#include "span/tree.h"

#define PATH_BYTES 110

struct holder {
    uint32_t id;
    uint64_t bytes;
};

/* Writes what each context and its periods have in use, by id. Under LOCK_TREE. */
static void add_up(const struct reading *r, uint32_t end, uint64_t *bytes)
{
    for (uint32_t first = 0; first < end; first += READING_CHUNK) {
        struct totals sums[READING_CHUNK];
        reading_chunk(r, first, sums);
        for (uint32_t id = first ? first : CONTEXT_ID_ROOT; id < end && id < first + READING_CHUNK; id++) {
            if (!tree_is_live(id))
                continue;
            struct totals *sum = &sums[id - first];
            totals_subtract(sum, &context_bases[id]);
            tree_add_past(sum, id);
            int64_t inuse = (int64_t)totals_inuse_bytes(sum);
            bytes[id == CONTEXT_ID_UNSAMPLED ? CONTEXT_ID_ROOT : tree_whole(id)] += inuse > 0 ? (uint64_t)inuse : 0;
        }
    }
}

static void choose(struct holder top[TOP_HOLDERS], const uint64_t *bytes, uint32_t end)
{
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++) {
        unsigned i = TOP_HOLDERS;
        for (; i && bytes[id] > top[i - 1].bytes; i--)
            if (i < TOP_HOLDERS)
                top[i] = top[i - 1];
        if (i < TOP_HOLDERS)
            top[i] = (struct holder){id, bytes[id]};
    }
}

static void append(char text[TOP_HOLDERS_TEXT_BYTES], const char *more)
{
    strncat(text, more, TOP_HOLDERS_TEXT_BYTES - 1 - strlen(text));
}

static void describe(char text[TOP_HOLDERS_TEXT_BYTES], const struct holder top[TOP_HOLDERS])
{
    char path[PATH_BYTES], number[NUMBER_BYTES];
    for (unsigned i = 0; i < TOP_HOLDERS && top[i].bytes; i++) {
        append(text, i ? ", " : "");
        append(text, number_text(number, top[i].bytes, 10));
        append(text, i ? " in " : " bytes in ");
        append(text, context_path(top[i].id, path, sizeof path));
    }
}

void top_holders_describe(char text[TOP_HOLDERS_TEXT_BYTES])
{
    struct holder top[TOP_HOLDERS] = {{0}};
    text[0] = '\0';
    lock(LOCK_TREE);
    uint32_t end = tree_end();
    size_t sums_bytes = (size_t)end * sizeof(uint64_t), rest = reading_bytes();
    uint64_t *bytes = meta_emergency_alloc(sums_bytes + rest);
    if (bytes) {
        add_up(reading_begin((char *)bytes + sums_bytes, rest, end), end, bytes);
        choose(top, bytes, end);
        describe(text, top);
        meta_return(bytes, sums_bytes + rest);
    }
    unlock(LOCK_TREE);
}
