/* SPDX-License-Identifier: BSD-2-Clause */
/* Alerts, and the reading with the most bytes in use. */
#include "sidecar/watched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/mailbox.h"
#include "conf/conf.h"
#include "report/alert_stacks.h"
#include "report/alerts.h"
#include "sidecar/stacks_ask.h"
#include "snapshot/row_path.h"

struct watched {
    struct snapshot *highest; /* NULL: none. Its memory is the readings' */
    struct alert_stacks stacks;
    struct alert_state alerts[];
};

static unsigned n_alerts;
static char last_stacks[STACK_MODE_BYTES]; /* what was set last for rules that hold, in any process */

void watched_boot(void)
{
    n_alerts = alerts_read(conf.alert, conf_warn_item, "alert");
}

static bool keeps_peak(void)
{
    return conf.dump_peak && conf.dump_dir[0];
}

uint64_t watched_interval_ns(uint64_t by_default_ns)
{
    return n_alerts || keeps_peak() ? conf.reading_interval_ms * UINT64_C(1000000) : by_default_ns;
}

struct watched *watched_new(void)
{
    bool is_wanted = n_alerts || keeps_peak();
    return is_wanted ? calloc(1, sizeof(struct watched) + n_alerts * sizeof(struct alert_state)) : NULL;
}

void watched_free(struct watched *w)
{
    if (w)
        readings_give_back(w->highest);
    free(w);
}

/* ---- Alerts ---- */

static void say(const struct served *p, const struct snapshot *s, const struct alert_news *news)
{
    char path[LINE_HOLDER_BYTES], pid[NUMBER_BYTES], bytes[NUMBER_BYTES], most[NUMBER_BYTES];
    row_path(path, sizeof path, s, news->row);
    WARN("alert: ", news->rule, ": ", number_text(bytes, news->bytes, 10), " bytes in ", p->name, " (process ",
         number_text(pid, (uint64_t)p->pid, 10), "); ", number_text(most, news->row_bytes, 10), " in use by ", path);
}

/* A forked process begins with the mode of its parent, which the sidecar may have set. */
static void know_stacks_of_parent(struct served *p, const char *now)
{
    bool is_forked = page_is_of(p->slot, p->pid) && load_relaxed(&p->slot->forked);
    if (is_forked && !p->watched->stacks.set[0] && strcmp(now, last_stacks) == 0)
        alert_stacks_note(&p->watched->stacks, now);
}

/* If the process cannot be asked now, the next look tries again. */
static void set_stacks(struct served *p, const struct alert_news *news)
{
    char mode[STACK_MODE_BYTES];
    struct mailbox_answer now;
    if (readings_get(p->readings, "spans.stacks", &now))
        return;
    know_stacks_of_parent(p, now.words);
    if (!alert_stacks_wants(&p->watched->stacks, news, n_alerts, now.words, mode) || stacks_ask(p->pid, mode))
        return;
    alert_stacks_note(&p->watched->stacks, mode);
    if (strcmp(mode, conf.stacks) != 0)
        strcpy(last_stacks, mode);
    char pid[NUMBER_BYTES];
    WARN("alert: stacks: ", mode, " in ", p->name, " (process ", number_text(pid, (uint64_t)p->pid, 10), ")");
}

static void look_for_alerts(struct served *p, const struct snapshot *s)
{
    struct alert_news news[ALERTS_MOST];
    struct alert_figures *figures = readings_alerts(p->readings);
    unsigned n_new = alerts_look(p->watched->alerts, figures, s, clock_ns(CLOCK_MONOTONIC), news);
    page_show_alerts(p->slot, p->pid, figures, n_alerts);
    for (unsigned i = 0; i < n_alerts; i++)
        if (news[i].is_new)
            say(p, s, &news[i]);
    if (n_new && conf.dump_dir[0])
        served_write_dump(p, s, DUMP_ALERT, "read when an alert was told");
    set_stacks(p, news);
}

/* ---- The peak ---- */

static void keep_highest(struct watched *w, struct snapshot *s)
{
    if (w->highest && totals_inuse_bytes(&s->all) <= totals_inuse_bytes(&w->highest->all))
        return;
    readings_give_back(w->highest);
    readings_share(s);
    w->highest = s;
}

void watched_look(struct served *p, struct snapshot *s)
{
    if (!p->watched)
        return;
    look_for_alerts(p, s);
    if (keeps_peak())
        keep_highest(p->watched, s);
}

void watched_write_peak(struct served *p)
{
    if (!p->watched || !p->watched->highest)
        return;
    served_write_dump(p, p->watched->highest, DUMP_PEAK, "the reading with the most bytes in use");
    readings_give_back(p->watched->highest);
    p->watched->highest = NULL;
}
