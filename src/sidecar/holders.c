/* SPDX-License-Identifier: BSD-2-Clause */
/* The contexts of a snapshot with the most bytes in use. */
#include "sidecar/holders.h"

#include <string.h>

#include "base/die.h"
#include "base/path_writer.h"

#define PATH_BYTES 110

static void put_labels_before(struct writer *w, const struct snapshot_row *row)
{
    uint32_t n = row->n_labels;
    put_before(w, n ? "}" : "");
    while (n--) {
        put_before(w, row->labels[n].value);
        put_before(w, "=");
        put_before(w, row->labels[n].key);
        put_before(w, n ? "," : "{");
    }
}

static const char *path_of(char path[PATH_BYTES], const struct snapshot *s, uint32_t row)
{
    struct writer w = {path + PATH_BYTES - 1, path};
    *w.at = '\0';
    for (;; row = s->rows[row].parent_row) {
        put_labels_before(&w, &s->rows[row]);
        put_before(&w, s->rows[row].name);
        if (s->rows[row].parent_row == 0)
            return w.at;
        put_before(&w, ";");
    }
}

static void append(char text[HOLDERS_TEXT_BYTES], const char *more)
{
    strncat(text, more, HOLDERS_TEXT_BYTES - 1 - strlen(text));
}

void holders_describe(char text[HOLDERS_TEXT_BYTES], const struct snapshot *s)
{
    uint32_t top[TOP_HOLDERS], n = 0;
    char path[PATH_BYTES], number[NUMBER_BYTES];
    for (uint32_t row = 0; row < s->n_rows; row++) {
        uint64_t bytes = totals_inuse_bytes(&s->rows[row].totals);
        uint32_t i = bytes ? n : TOP_HOLDERS;
        for (; i && i <= n && bytes > totals_inuse_bytes(&s->rows[top[i - 1]].totals); i--)
            if (i < TOP_HOLDERS)
                top[i] = top[i - 1];
        if (i < TOP_HOLDERS)
            top[i] = row;
        n += i < TOP_HOLDERS && n < TOP_HOLDERS;
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        append(text, i ? ", " : "");
        append(text, number_text(number, totals_inuse_bytes(&s->rows[top[i]].totals), 10));
        append(text, i ? " in " : " bytes in ");
        append(text, path_of(path, s, top[i]));
    }
}
