/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl PID set 'limit:PATH' BYTES` and `get 'FIGURE:PATH'`: finds the context of a path (snapshot/row_find.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/command.h"
#include "ctl_target.h"
#include "snapshot/names_outside.h"
#include "snapshot/row_find.h"
#include "snapshot/view.h"

#define HARD "limit:"
#define SOFT "limit_soft:"

bool ctl_is_limit(const char *name)
{
    return strncmp(name, HARD, strlen(HARD)) == 0 || strncmp(name, SOFT, strlen(SOFT)) == 0;
}

static int check_path(const char *name)
{
    const char *path = strchr(name, ':') + 1, *wrong = row_path_wrong(path);
    if (wrong)
        cmd_error("'%s' is no path of spans: %s", path, wrong);
    return wrong ? STATUS_USAGE : 0;
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
        if (row_fits(s, row, path)) {
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
        if (row_fits(s, row, path)) {
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
    int status = check_path(name);
    if (!status)
        status = ctl_read(t);
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
    int status = check_path(name), n = (int)(strchr(name, ':') - name);
    if (!status)
        status = ctl_read(t);
    uint32_t row = status ? 0 : find(t, name);
    if (!row)
        return status ? status : STATUS_REFUSED;
    bool is_limit = strncmp(name, HARD, strlen(HARD)) == 0;
    snprintf(real, CTL_NAME_BYTES, "spans.%" PRIu32 ".%.*s%s", t->outside.snapshot->rows[row].id, n, name, is_limit ? "_hard" : "");
    return 0;
}
