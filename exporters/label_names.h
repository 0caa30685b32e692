/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of labels that servers accept: [a-zA-Z_][a-zA-Z0-9_]*. Pyroscope stores other names too, but Grafana hides
 * them. */
#ifndef JESPAN_LABEL_NAMES_H
#define JESPAN_LABEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the name of a key of `n` bytes. Other characters become underscores, and a digit at the start gets one before
 * it. `to` has n + 2 bytes. */
void label_name_write(char *to, const char *key, size_t n);

/* Keys and their names. All names differ. */
struct label_names {
    size_t n;
    char **keys, **names;
};

/* Makes the names of the keys in KEY|KEY…. If an earlier key has the same name, underscores are appended. False: no
 * memory. */
bool label_names_make(struct label_names *names, const char *list);
void label_names_free(struct label_names *names);

/* NULL: the key is not listed. */
const char *label_names_find(const struct label_names *names, const char *key);

#endif
