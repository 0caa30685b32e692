/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process for events. */
#include "sidecar/event_dumps.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/mailbox.h"
#include "base/number.h"
#include "conf/conf.h"
#include "report/event_watch.h"
#include "sidecar/holders.h"
#include "sidecar/page.h"

struct event_dumps {
    struct event_watch watch;
    uint64_t next_ns, quiet_until_ns; /* quiet_until_ns 0: not quiet */
};

static uint32_t wanted;

uint32_t event_dumps_boot(void)
{
    wanted = conf.dump_dir[0] ? event_watch_wanted(false) : 0;
    return wanted;
}

/* ---- For event_watch.h ---- */

/* The line comes before the dump, because all may end during the dump. */
static void dump(void *arg, enum dump_reason reason, const char *why)
{
    struct served *p = arg;
    char text[HOLDERS_TEXT_BYTES] = "";
    page_begin_dump(p->slot, p->pid, reason);
    struct snapshot *s = readings_next(p->readings);
    if (s && why)
        holders_describe(text, s);
    if (why)
        WARN(why, "; ", text);
    if (s && served_write_dump(p, s, reason, "read for an event"))
        page_count_dump(p->slot, p->pid, reason);
    page_end_dump(p->slot, p->pid);
    if (s)
        served_note_figures(p, s);
    readings_give_back(s);
}

static void done(void *arg, enum dump_reason reason, uint64_t quiet_until_ns)
{
    struct served *p = arg;
    if (reason != DUMP_OOM)
        return;
    page_done(p->slot, p->pid);
    p->event_dumps->quiet_until_ns = quiet_until_ns;
}

static uint64_t mapped_bytes(void *arg)
{
    struct served *p = arg;
    struct mailbox_answer answer;
    return readings_get(p->readings, "spans.stats.mapped_bytes", &answer) ? 0 : answer.value;
}

static const struct event_watch_calls calls = {dump, done, mapped_bytes};

/* ---- A process ---- */

static void begin(struct served *p)
{
    p->event_dumps = malloc(sizeof *p->event_dumps);
    if (!p->event_dumps)
        return;
    event_watch_begin(&p->event_dumps->watch, &calls, p, wanted, p->pid);
    p->event_dumps->next_ns = p->event_dumps->quiet_until_ns = 0;
}

void event_dumps_tend(struct served *p)
{
    if (!wanted || !p->readings || !page_leaves_events(p->slot, p->pid))
        return;
    if (!p->event_dumps)
        begin(p);
    struct event_dumps *e = p->event_dumps;
    if (!e)
        return;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (e->quiet_until_ns && now >= e->quiet_until_ns) {
        e->quiet_until_ns = 0;
        page_be_open(p->slot, p->pid);
    }
    uint32_t known = e->watch.happened;
    e->watch.happened |= page_events(p->slot);
    if (e->watch.happened != known || now >= e->next_ns)
        e->next_ns = event_watch_look(&e->watch);
    if (e->quiet_until_ns)
        e->next_ns = lesser(e->next_ns, e->quiet_until_ns);
}

void event_dumps_tend_last(struct served *p)
{
    event_dumps_tend(p);
    if (p->event_dumps)
        event_watch_handle_last(&p->event_dumps->watch);
}

uint64_t event_dumps_next_ns(const struct served *p)
{
    return p->event_dumps && page_leaves_events(p->slot, p->pid) ? p->event_dumps->next_ns : UINT64_MAX;
}

void event_dumps_end(struct served *p)
{
    if (p->event_dumps)
        event_watch_end(&p->event_dumps->watch);
    free(p->event_dumps);
    p->event_dumps = NULL;
}
