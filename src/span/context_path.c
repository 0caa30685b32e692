/* SPDX-License-Identifier: BSD-2-Clause */
/* A context's path. It is written from its end to its beginning, since contexts know their parents. */
#include "span/context_path.h"

#include <string.h>

#include "base/path_writer.h"
#include "span/tree.h"

static void put_labels_before(struct writer *w, const struct label_set *set)
{
    struct label_text labels[JESPAN_MAX_LABELS];
    unsigned n = 0;
    for (struct label_text label; labels_each(set, n, &label); n++)
        labels[n] = label;
    put_before(w, n ? "}" : "");
    while (n--) {
        put_before(w, labels[n].value);
        put_before(w, "=");
        put_before(w, labels[n].key);
        put_before(w, n ? "," : "{");
    }
}

const char *context_path(uint32_t id, char *buffer, size_t bytes)
{
    struct writer w = {buffer + bytes - 1, buffer};
    *w.at = '\0';
    for (;; id = contexts[id].parent) {
        put_labels_before(&w, contexts[id].labels);
        put_before(&w, contexts[id].site->name);
        if (id == CONTEXT_ID_ROOT || contexts[id].parent == CONTEXT_ID_ROOT)
            return w.at;
        put_before(&w, ";");
    }
}
