/* SPDX-License-Identifier: BSD-2-Clause */
/* What the process is: the resource attributes of OTLP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/encode.h"
#include "base/parse.h"
#include "otlp_request.h"
#include "utf8.h"

static bool has(const struct otlp_source *s, const char *key)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->attributes[i].key, key) == 0)
            return true;
    return false;
}

/* Owns `key` and `text` from now on. */
static int put(struct otlp_source *s, char *key, char *text, int64_t number)
{
    int error = key ? 0 : -ENOMEM;
    if (error == 0 && !has(s, key)) {
        error = array_reserve(&s->attributes, &s->capacity, s->n + 1, sizeof *s->attributes);
        if (error == 0) {
            s->attributes[s->n++] = (struct otlp_attribute){key, text, number};
            return 0;
        }
    }
    free(key);
    free(text);
    return error;
}

static int put_text(struct otlp_source *s, const char *key, const char *text)
{
    char *clean = utf8_clean(text);
    return clean ? put(s, strdup(key), clean, 0) : -ENOMEM;
}

/* KEY=VALUE|KEY=VALUE, percent-encoded */
static int put_list(struct otlp_source *s, const char *list)
{
    int error = 0;
    for (struct list_item item; error == 0 && list_next(&list, &item);) {
        size_t key_bytes = list_name_bytes(&item);
        if (key_bytes == 0)
            continue;
        char *key = strndup(item.text, key_bytes), *value = strndup(item.text + key_bytes + 1, item.bytes - key_bytes - 1);
        char *clean_key = key ? utf8_clean(key) : NULL;
        if (value)
            percent_decode(value);
        error = clean_key && value ? put_text(s, clean_key, value) : -ENOMEM;
        free(clean_key);
        free(key);
        free(value);
    }
    return error;
}

int otlp_source_make(struct otlp_source *s, const struct service_host *host)
{
    char name[256] = "";
    const struct conf *c = host->conf;
    *s = (struct otlp_source){.conf = c};
    int error = c->pyroscope_app[0] != '\0' ? put_text(s, "service.name", c->pyroscope_app) : 0;
    if (error == 0)
        error = put_list(s, c->resource_attributes);
    if (error == 0 && gethostname(name, sizeof name - 1) == 0)
        error = put_text(s, "host.name", name);
    if (error == 0)
        error = put(s, strdup("process.pid"), NULL, host->pid);
    if (error == 0)
        error = put_text(s, "process.executable.name", host->program);
    if (error == 0)
        error = put_text(s, "service.name", host->program);
    return error;
}

void otlp_source_free(struct otlp_source *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->attributes[i].key);
        free(s->attributes[i].text);
    }
    free(s->attributes);
    s->attributes = NULL;
    s->n = s->capacity = 0;
}
