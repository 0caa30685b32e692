/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of mallctl, as services in the sidecar ask for them. */
#include "sidecar/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mailbox.h"
#include "report/alerts.h"

struct service_figures service_figures;

/* Figures of the services, by their names below spans.stats. */
static const struct {
    const char *name;
    _Atomic uint64_t *value;
} stats[] = {
#define PYROSCOPE_ROW(name) {"spans.stats.pyroscope." #name, &service_figures.pyroscope.name},
#define OTLP_ROW(name) {"spans.stats.otlp." #name, &service_figures.otlp.name},
#define HTTP_ROW(name) {"spans.stats.http." #name, &service_figures.http.name},
    PUSH_STATS(PYROSCOPE_ROW) PUSH_STATS(OTLP_ROW) HTTP_STATS(HTTP_ROW)};

/* Keeps the name of an arena for good, since names that mallctl returns stay valid too. There are few. */
static const char *keep(const char *text)
{
    static struct kept {
        struct kept *next;
        char text[];
    } *first;
    for (struct kept *k = first; k; k = k->next)
        if (strcmp(k->text, text) == 0)
            return k->text;
    struct kept *k = malloc(sizeof *k + strlen(text) + 1);
    if (!k)
        return "";
    strcpy(k->text, text);
    k->next = first;
    first = k;
    return k->text;
}

/* The program wrote no dumps itself. It counts those that an event asked for, such as spans.stats.oom_dumps. */
static bool is_of_dumps(const char *name)
{
    return strcmp(name, "spans.stats.dumps") == 0 || strcmp(name, "spans.stats.lost_dumps") == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Answers with figures read out of the program. */
static int ask_outside(struct readings *source, const char *name, void *old, size_t *old_bytes)
{
    struct mailbox_answer answer;
    if (!source || is_of_dumps(name) || readings_get(source, name, &answer) != 0)
        return ENOENT;
    if (answer.kind == MAILBOX_WORDS && ends_with(name, ".value")) {
        snprintf(old, *old_bytes, "%s", answer.words);
        return 0;
    }
    if (*old_bytes != sizeof(uint64_t))
        return EINVAL;
    if (answer.kind == MAILBOX_WORDS)
        *(const char **)old = keep(answer.words);
    else
        *(uint64_t *)old = answer.value;
    return 0;
}

/* spans.alerts.NAME: this process evaluates the rules. */
static int ask_alert(struct readings *source, const char *rest, void *old, size_t *old_bytes)
{
    uint32_t rule;
    int n = 0;
    if (*old_bytes != sizeof(uint64_t))
        return EINVAL;
    if (strcmp(rest, "count") == 0) {
        *(uint64_t *)old = load_relaxed(&alerts_shown.n);
        return 0;
    }
    if (!source || sscanf(rest, "%10" SCNu32 ".%n", &rule, &n) != 1 || !n || rule < 1 || rule > load_relaxed(&alerts_shown.n))
        return ENOENT;
    if (strcmp(rest + n, "rule") == 0) {
        *(const char **)old = alerts_shown.rules[rule - 1];
        return 0;
    }
    for (size_t i = 0; i < ALERT_N_FIGURES; i++)
        if (strcmp(rest + n, alert_figure_name(i)) == 0) {
            *(uint64_t *)old = alert_figure(&readings_alerts(source)[rule - 1], i);
            return 0;
        }
    return ENOENT;
}

int names_answer(struct readings *source, const char *name, void *old, size_t *old_bytes)
{
    for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
        if (strcmp(stats[i].name, name) == 0) {
            if (*old_bytes != sizeof(uint64_t))
                return EINVAL;
            *(uint64_t *)old = load_relaxed(stats[i].value);
            return 0;
        }
    if (strncmp(name, "spans.alerts.", 13) == 0)
        return ask_alert(source, name + 13, old, old_bytes);
    return ask_outside(source, name, old, old_bytes);
}
