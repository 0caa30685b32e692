/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of labels that servers accept. */
#include "label_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

void label_name_write(char *to, const char *key, size_t n)
{
    if (n > 0 && is_digit(key[0]))
        *to++ = '_';
    for (size_t i = 0; i < n; i++)
        *to++ = is_name_character(key[i]) ? key[i] : '_';
    *to = '\0';
}

static bool is_taken(const struct label_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

/* A taken name gets one more underscore, so a name gets at most as many as there are names. */
static bool add(struct label_names *names, const char *key, size_t n)
{
    char *own = strndup(key, n), *name = malloc(n + 2 + names->n);
    if (!own || !name) {
        free(own);
        free(name);
        return false;
    }
    label_name_write(name, key, n);
    while (is_taken(names, name))
        strcat(name, "_");
    names->keys[names->n] = own;
    names->names[names->n++] = name;
    return true;
}

bool label_names_make(struct label_names *names, const char *list)
{
    size_t capacity = 1;
    for (const char *p = list; *p != '\0'; p++)
        capacity += *p == '|';
    *names = (struct label_names){.keys = calloc(capacity, sizeof *names->keys), .names = calloc(capacity, sizeof *names->names)};
    bool made = names->keys && names->names;
    for (struct list_item item; made && list_next(&list, &item);)
        made = add(names, item.text, item.bytes);
    if (!made)
        label_names_free(names);
    return made;
}

void label_names_free(struct label_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->keys[i]);
        free(names->names[i]);
    }
    free(names->keys);
    free(names->names);
    *names = (struct label_names){0};
}

const char *label_names_find(const struct label_names *names, const char *key)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->keys[i], key) == 0)
            return names->names[i];
    return NULL;
}
