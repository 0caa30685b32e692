/* SPDX-License-Identifier: BSD-2-Clause */
/* Alerts: inuse(request)>1G|growth(cache)>10M/min|outlived(*)>=64M. */
#include "report/alerts.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/figures.h"
#include "base/number.h"
#include "base/parse.h"
#include "conf/conf.h"

#define MOST_NAMES 8
#define MOST_LABELS 4
#define NS_PER_S UINT64_C(1000000000)

enum kind { INUSE, GROWTH, OUTLIVED, N_KINDS };
static const char *const kind_names[N_KINDS] = {[INUSE] = "inuse", [GROWTH] = "growth", [OUTLIVED] = "outlived"};

/* Strings lie in `words`. */
struct rule {
    enum kind kind;
    unsigned n_names, n_labels;
    const char *names[MOST_NAMES]; /* the outermost first */
    struct {
        const char *key, *value;
    } labels[MOST_LABELS];
    uint64_t bound;     /* as in the text */
    uint64_t bytes;     /* the rule holds above so many */
    uint64_t window_ns; /* of growth */
    const char *text;
};

static struct rule rules[ALERTS_MOST];
struct alerts_shown alerts_shown;
FIGURE_ROW(figure_alerts_count, "spans.alerts.count", alerts_shown.n, FIGURE_NUMBER);
static struct alerts_shown *const shown_at = &alerts_shown;
FIGURE_ROW(figure_alerts, ".alerts", shown_at, FIGURE_NUMBER);
static char texts[CONF_STRING_BYTES], words[CONF_STRING_BYTES];

/* ---- Reading rules ---- */

/* "name > name" */
static int parse_names(struct rule *r, char *text)
{
    for (char *name; (name = strsep(&text, ">"));) {
        name = text_trim(name);
        if (!*name || r->n_names == MOST_NAMES)
            return -EINVAL;
        r->names[r->n_names++] = name;
    }
    return 0;
}

/* "key=value}{key=value}": the first brace is gone. */
static int parse_labels(struct rule *r, char *text)
{
    for (char *end; (end = strchr(text, '}')); text = end + 2) {
        char *equals = strchr(text, '=');
        bool is_last = !end[1];
        if (!equals || equals > end || r->n_labels == MOST_LABELS || (!is_last && end[1] != '{'))
            return -EINVAL;
        *equals = *end = '\0';
        r->labels[r->n_labels].key = text_trim(text);
        r->labels[r->n_labels++].value = text_trim(equals + 1);
        if (is_last)
            return 0;
    }
    return -EINVAL;
}

static int parse_subject(struct rule *r, char *text)
{
    char *brace = strchr(text, '{');
    if (brace)
        *brace = '\0';
    text = text_trim(text);
    int error = *text || !brace ? parse_names(r, text) : 0;
    return error || !brace ? error : parse_labels(r, text_trim(brace + 1));
}

/* The unit of a growth: "s", "min", "h". 0: it is none. */
static uint64_t window_of(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"s", NS_PER_S}, {"min", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ns;
    return 0;
}

static int parse_threshold(struct rule *r, char *text)
{
    if (*text++ != '>')
        return -EINVAL;
    bool is_least = *text == '=';
    char *rest = text + is_least, *bytes = strsep(&rest, "/");
    bool is_rate = r->kind == GROWTH;
    r->window_ns = window_of(rest ? text_trim(rest) : "");
    int error = is_rate != (r->window_ns > 0) || is_rate != (rest != NULL) ? -EINVAL : bytes_parse(text_trim(bytes), &r->bound);
    if (error || (is_least && r->bound == 0)) /* >=0 would always hold */
        return -EINVAL;
    r->bytes = r->bound - is_least;
    return 0;
}

/* "kind(subject)>threshold" */
static int parse_rule(struct rule *r, char *text)
{
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return -EINVAL;
    *open = *close = '\0';
    text = text_trim(text);
    while (r->kind < N_KINDS && strcmp(text, kind_names[r->kind]) != 0)
        r->kind++;
    int error = r->kind == N_KINDS ? -EINVAL : parse_subject(r, text_trim(open + 1));
    return error ? error : parse_threshold(r, text_trim(close + 1));
}

/* Metrics are named by their rules, so a rule counts once. */
static bool is_there(unsigned n, const char *text)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(rules[i].text, text) == 0)
            return true;
    return false;
}

unsigned alerts_read(const char *list, conf_wrong_item *wrong, const char *key)
{
    char *rest = strcpy(words, list), *texts_end = texts;
    unsigned n = 0;
    for (char *item; (item = strsep(&rest, "|"));) {
        struct rule r = {.text = texts_end};
        texts_end = stpcpy(texts_end, text_trim(item)) + 1;
        if (!*r.text || is_there(n, r.text))
            continue;
        const char *why = n == ALERTS_MOST     ? "comes after 32 others, which is the most"
                          : parse_rule(&r, item) ? "is not a rule such as inuse(SPAN)>1G, growth(SPAN)>10M/min or outlived(*)>64M"
                                               : NULL;
        if (!why)
            rules[n++] = r;
        else if (wrong)
            wrong(key, r.text, why);
    }
    for (unsigned i = 0; i < n; i++)
        alerts_shown.rules[i] = rules[i].text;
    store_release(&alerts_shown.n, n); /* pairs with readers of mallctl */
    return n;
}

/* ---- Looking ---- */

static const struct snapshot_row *above(const struct snapshot *s, const struct snapshot_row *row)
{
    const struct snapshot_row *parent = &s->rows[row->parent_row];
    return parent == row ? NULL : parent;
}

/* Whether the names are those of this context and of those above it. */
static bool ends_with_names(const struct rule *r, const struct snapshot *s, const struct snapshot_row *row)
{
    for (unsigned i = r->n_names; i > 0; i--, row = above(s, row))
        if (!row || !pattern_fits(r->names[i - 1], row->name))
            return false;
    return true;
}

static bool has_names(const struct rule *r, const struct snapshot *s, const struct snapshot_row *row)
{
    while (row && !ends_with_names(r, s, row))
        row = above(s, row);
    return row;
}

static bool has_label(const char *key, const char *value, const struct snapshot *s, const struct snapshot_row *row)
{
    for (; row; row = above(s, row))
        for (uint32_t i = 0; i < row->n_labels; i++)
            if (pattern_fits(key, row->labels[i].key) && pattern_fits(value, row->labels[i].value))
                return true;
    return false;
}

/* Alerts are about the program, so memory of jespan's own threads does not count. */
static bool fits(const struct rule *r, const struct snapshot *s, const struct snapshot_row *row)
{
    if (row->kind == CONTEXT_SELF || !has_names(r, s, row))
        return false;
    for (unsigned i = 0; i < r->n_labels; i++)
        if (!has_label(r->labels[i].key, r->labels[i].value, s, row))
            return false;
    return true;
}

/* Adds up the contexts that fit. */
static void add_up(const struct rule *r, const struct snapshot *s, struct alert_news *news)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct totals *t = &s->rows[i].totals;
        uint64_t bytes = r->kind == OUTLIVED ? t->outlived_bytes : totals_inuse_bytes(t);
        if (!bytes || !fits(r, s, &s->rows[i]))
            continue;
        news->bytes += bytes;
        if (bytes > news->row_bytes) {
            news->row_bytes = bytes;
            news->row = i;
        }
    }
}

/* Keeps a value for each fifteenth of the window. */
static void keep(struct alert_state *state, const struct rule *r, uint64_t bytes, uint64_t now_ns)
{
    unsigned newest = (state->next_past + ALERTS_PAST - 1u) % ALERTS_PAST;
    if (state->n_past && now_ns - state->past[newest].ns < r->window_ns / (ALERTS_PAST - 1))
        return;
    state->past[state->next_past].ns = now_ns;
    state->past[state->next_past].bytes = bytes;
    state->next_past = (uint8_t)((state->next_past + 1u) % ALERTS_PAST);
    state->n_past += state->n_past < ALERTS_PAST;
}

/* The growth since the oldest value in the window. If all are older, as readings are further apart, it is the window's share of the
 * growth since the newest one. */
static uint64_t growth(const struct alert_state *state, const struct rule *r, uint64_t bytes, uint64_t now_ns)
{
    uint64_t grown = 0, age_ns = 0;
    for (unsigned i = 0; i < state->n_past; i++) {
        unsigned at = (state->next_past + ALERTS_PAST - state->n_past + i) % ALERTS_PAST;
        grown = saturating_sub(bytes, state->past[at].bytes);
        age_ns = now_ns - state->past[at].ns;
        if (age_ns <= r->window_ns)
            return grown;
    }
    return age_ns ? (uint64_t)((unsigned __int128)grown * r->window_ns / age_ns) : 0;
}

static void show(struct alert_figures *figures, const struct alert_news *news)
{
    store_relaxed(&figures->bytes, news->bytes);
    store_relaxed(&figures->holding, news->holds);
    store_relaxed(&figures->fired, load_relaxed(&figures->fired) + news->is_new);
}

static void look(struct alert_state *state, const struct rule *r, const struct snapshot *s, uint64_t now_ns, struct alert_news *news)
{
    *news = (struct alert_news){.rule = r->text, .span = r->n_names ? r->names[r->n_names - 1] : NULL, .bound_bytes = r->bound};
    add_up(r, s, news);
    if (r->kind == GROWTH) {
        uint64_t bytes = news->bytes;
        news->bytes = growth(state, r, bytes, now_ns);
        keep(state, r, bytes, now_ns);
    }
    news->holds = news->bytes > (state->is_over ? r->bytes - r->bytes / 8 : r->bytes);
    news->is_new = news->holds && !state->is_over;
    state->is_over = news->holds;
}

unsigned alerts_look(struct alert_state *states, struct alert_figures *figures, const struct snapshot *s, uint64_t now_ns,
                     struct alert_news *news)
{
    unsigned n = 0;
    for (unsigned i = 0; i < load_relaxed(&alerts_shown.n); i++) {
        look(&states[i], &rules[i], s, now_ns, &news[i]);
        if (figures)
            show(&figures[i], &news[i]);
        n += news[i].is_new;
    }
    return n;
}
