/* SPDX-License-Identifier: BSD-2-Clause */
/* The labels of this process's series at a Pyroscope server. */
#include "pyroscope_labels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/parse.h"
#include "label_names.h"
#include "utf8.h"

static char *make_name(const char *text, size_t n)
{
    char *name = malloc(n + 2);
    if (name)
        label_name_write(name, text, n);
    return name;
}

#define REQUIRED 3 /* labels kept free for service_name, hostname and pid */

/* The number of labels that series_labels leaves: a server counts the labels of samples too. */
static size_t count_free(const char *series_labels)
{
    size_t n = 0;
    for (const char *p = series_labels; *p != '\0' && n < PYROSCOPE_MAX_LABELS - REQUIRED; p++)
        n += *p != '|' && (p[1] == '|' || p[1] == '\0');
    return PYROSCOPE_MAX_LABELS - n;
}

/* Owns both strings from now on. */
static void put(struct pyroscope_labels *labels, size_t max, char *name, char *value)
{
    size_t at = 0;
    while (name && at < labels->n && strcmp(labels->pairs[at].name, name) < 0)
        at++;
    bool there = name && at < labels->n && strcmp(labels->pairs[at].name, name) == 0;
    bool fits = name && value && labels->n < max;
    if (there || !fits || value[0] == '\0') {
        labels->left_out += !there && !fits;
        free(name);
        free(value);
        return;
    }
    memmove(&labels->pairs[at + 1], &labels->pairs[at], (labels->n++ - at) * sizeof labels->pairs[0]);
    labels->pairs[at] = (struct pyroscope_label){name, value};
}

static void add(struct pyroscope_labels *labels, const char *name, const char *value)
{
    put(labels, labels->max, strdup(name), utf8_clean(value));
}

/* Translates OpenTelemetry's names to Pyroscope's. NULL: Pyroscope has no other name. */
static const char *translate(const char *key, size_t n)
{
    static const char *const names[][2] = {
        {"service.name", "service_name"},
        {"vcs.repository.url.full", "service_repository"},
        {"vcs.ref.head.revision", "service_git_ref"},
        {"host.name", "hostname"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i][0]) == n && memcmp(names[i][0], key, n) == 0)
            return names[i][1];
    return NULL;
}

/* Names that begin with two underscores belong to the server. */
static bool is_reserved(const char *key, size_t n)
{
    return n == 0 || (n >= 2 && key[0] == '_' && key[1] == '_');
}

static void add_pair(struct pyroscope_labels *labels, const char *key, size_t key_bytes, char *value, bool attribute)
{
    const char *translated = attribute ? translate(key, key_bytes) : NULL;
    if (value && attribute)
        percent_decode(value);
    put(labels, labels->max - REQUIRED, translated ? strdup(translated) : make_name(key, key_bytes),
        value ? utf8_clean(value) : NULL);
    free(value);
}

/* Adds KEY=VALUE|KEY=VALUE. Attributes are percent-encoded. */
static void add_list(struct pyroscope_labels *labels, const char *list, bool attributes)
{
    for (struct list_item item; list_next(&list, &item);) {
        size_t key_bytes = list_name_bytes(&item);
        labels->malformed |= key_bytes == 0;
        if (!is_reserved(item.text, key_bytes))
            add_pair(labels, item.text, key_bytes, strndup(item.text + key_bytes + 1, item.bytes - key_bytes - 1), attributes);
    }
}

void pyroscope_labels_make(struct pyroscope_labels *labels, const struct service_host *service)
{
    const struct conf *c = service->conf;
    char host[256] = "", pid[16];
    *labels = (struct pyroscope_labels){.max = count_free(c->series_labels)};
    if (c->pyroscope_app[0] != '\0')
        add(labels, "service_name", c->pyroscope_app);
    add_list(labels, c->pyroscope_labels, false);
    add_list(labels, c->resource_attributes, true);
    if (gethostname(host, sizeof host - 1) == 0)
        add(labels, "hostname", host);
    snprintf(pid, sizeof pid, "%d", (int)service->pid);
    add(labels, "pid", pid);
    add(labels, "service_name", service->program);
}

void pyroscope_labels_free(struct pyroscope_labels *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        free(labels->pairs[i].name);
        free(labels->pairs[i].value);
    }
    labels->n = 0;
}

const char *pyroscope_labels_get(const struct pyroscope_labels *labels, const char *name)
{
    for (size_t i = 0; i < labels->n; i++)
        if (strcmp(labels->pairs[i].name, name) == 0)
            return labels->pairs[i].value;
    return "";
}
