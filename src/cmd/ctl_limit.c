/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl PID set 'limit:PATH' BYTES` and `get 'FIGURE:PATH'`: finds the context of a path.
 *
 * A path is names of spans from the outer to the inner one, as far as they are needed: "request > cache". A name may be a
 * pattern, and may have labels: "cache{tenant=blue,shard=*}". */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cmd.h"
#include "ctl_target.h"
#include "snapshot/names_outside.h"
#include "snapshot/view.h"

#define HARD "limit:"
#define SOFT "limit_soft:"

bool ctl_is_limit(const char *name)
{
    return strncmp(name, HARD, strlen(HARD)) == 0 || strncmp(name, SOFT, strlen(SOFT)) == 0;
}

static bool has_label(const struct snapshot_row *row, const char *key, const char *value)
{
    for (uint32_t i = 0; i < row->n_labels; i++)
        if (strcmp(row->labels[i].key, key) == 0 && pattern_fits(value, row->labels[i].value))
            return true;
    return false;
}

/* `labels` is KEY=VALUE,…; it is changed. */
static bool has_labels(const struct snapshot_row *row, char *labels)
{
    for (char *one; (one = strsep(&labels, ","));) {
        char *value = strchr(one, '=');
        if (!value)
            return false;
        *value = '\0';
        if (!has_label(row, text_trim(one), text_trim(value + 1)))
            return false;
    }
    return true;
}

/* Whether the row is NAME or NAME{LABELS}; `part` is changed. */
static bool fits_part(const struct snapshot_row *row, char *part)
{
    char *labels = strchr(part, '{');
    if (labels) {
        char *end = strrchr(labels, '}');
        if (!end || end[1])
            return false;
        *end = '\0';
        *labels++ = '\0';
    }
    return pattern_fits(text_trim(part), row->name) && (!labels || has_labels(row, labels));
}

/* Whether the path ends with these spans, of which the last is this row. */
static bool fits(const struct snapshot *s, uint32_t row, const char *path)
{
    char *text = strdup(path);
    bool good = text;
    while (good && text[0]) {
        if (row == 0)
            good = false;
        char *last = strrchr(text, '>'), *part = last ? last + 1 : text;
        good = good && fits_part(&s->rows[row], text_trim(part));
        row = s->rows[row].parent_row;
        if (last)
            *last = '\0';
        else
            text[0] = '\0';
    }
    free(text);
    return good;
}

/* "request {tenant=blue} > cache" */
static void print_path(FILE *to, const struct snapshot *s, uint32_t row)
{
    const struct snapshot_row *r = &s->rows[row];
    if (r->parent_row) {
        print_path(to, s, r->parent_row);
        fputs(" > ", to);
    }
    fputs(r->name, to);
    for (uint32_t i = 0; i < r->n_labels; i++)
        fprintf(to, "%s%s=%s", i ? ", " : " {", r->labels[i].key, r->labels[i].value);
    fputs(r->n_labels ? "}" : "", to);
}

/* Prints the first rows that fit. Control characters become '?'. Returns NULL without memory; else it is to be freed. */
static char *describe(const struct snapshot *s, const char *path)
{
    enum { SHOWN = 3 };
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    for (uint32_t row = 1, n = 0; to && row < s->n_rows && n < SHOWN; row++)
        if (s->rows[row].kind == CONTEXT_SPAN && fits(s, row, path)) {
            fputs(n++ ? "; " : "", to);
            print_path(to, s, row);
        }
    if (to)
        fclose(to);
    for (char *c = text; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return text;
}

/* Returns the row, or 0 after a message: none fits, or several. */
static uint32_t find(const struct ctl_target *t, const char *name)
{
    const char *path = strchr(name, ':') + 1;
    const struct snapshot *s = t->outside.snapshot;
    uint32_t found = 0, n = 0;
    for (uint32_t row = 1; row < s->n_rows; row++)
        if (s->rows[row].kind == CONTEXT_SPAN && fits(s, row, path)) {
            found = row;
            n++;
        }
    if (n == 1)
        return found;
    if (n == 0) {
        cmd_error("%s: no span fits '%s'", t->word, path);
        return 0;
    }
    char *some = describe(s, path);
    cmd_error("%s: %" PRIu32 " spans fit '%s': %s%s. Name the spans above or labels, as in '%.*srequest > cache{tenant=blue}'", t->word,
              n, path, some ? some : "", n > 3 ? "; …" : "", (int)(path - name), name);
    free(some);
    return 0;
}

int ctl_begin_limit(struct ctl_target *t, struct mailbox_request *request, const char *name)
{
    char real[64];
    bool soft = strncmp(name, SOFT, strlen(SOFT)) == 0;
    int status = ctl_read(t);
    if (status)
        return status;
    uint32_t row = find(t, name);
    if (!row)
        return STATUS_REFUSED;
    const struct snapshot_row *r = &t->outside.snapshot->rows[row];
    snprintf(real, sizeof real, "spans.%" PRIu32 ".limit_%s", r->id, soft ? "soft" : "hard");
    status = ctl_begin(request, MAILBOX_SET, real);
    request->life = 2 * r->generation + 1;
    return status;
}

int ctl_name_by_path(struct ctl_target *t, const char *name, char real[CTL_NAME_BYTES])
{
    int status = ctl_read(t), n = (int)(strchr(name, ':') - name);
    uint32_t row = status ? 0 : find(t, name);
    if (!row)
        return status ? status : STATUS_REFUSED;
    bool is_limit = strncmp(name, HARD, strlen(HARD)) == 0;
    snprintf(real, CTL_NAME_BYTES, "spans.%" PRIu32 ".%.*s%s", t->outside.snapshot->rows[row].id, n, name, is_limit ? "_hard" : "");
    return 0;
}
