/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of folded stacks, as tracing-flame writes them: `ThreadId(1)-main;outer;inner 1234`, in nanoseconds. */
#include <string.h>

#include "events_out.h"
#include "events_text.h"

static char *add_thread(char *to, const char *end, const struct events_lane *lane, const char *name)
{
    to = events_number(events_text(to, end, "ThreadId("), end, lane->thread.number);
    to = events_text(to, end, ")");
    return name[0] != '\0' ? events_folded(events_text(to, end, "-"), end, name) : to;
}

void events_folded_write(struct events_file *f, const struct events_lane *lane, const char *name, uint64_t now_ns)
{
    const struct conf *c = f->host->conf;
    if (!c->events_empty_samples && lane->node->depth == 0 && !lane->has_gap)
        return;
    char *to = events_file_line(f), *end = to + EVENTS_PIECE_BYTES;
    if (!to)
        return;
    to = c->events_threads_collapsed ? events_text(to, end, "all-threads") : add_thread(to, end, lane, name);
    if (lane->has_gap) {
        to = events_text(to, end, ";(lost%20events)");
    } else {
        memcpy(to, lane->node->path ? lane->node->path : "", lane->node->path_bytes);
        to += lane->node->path_bytes;
    }
    to = events_number(events_text(to, end, " "), end, now_ns - lane->last_ns);
    events_file_added(f, events_text(to, end, "\n"));
}
