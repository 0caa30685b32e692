/* SPDX-License-Identifier: BSD-2-Clause */
/* /metrics: the tables of metrics, and how they are written. */

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "http_answer.h"
#include "http_series.h"

enum unit { AS_IT_IS, NANOSECONDS }; /* nanoseconds are written in seconds */

/* Names of figures that only grow end in _total. */
struct metric {
    const char *name, *type, *help;
    enum unit unit;
    size_t offset; /* of the figure */
};

static void write_head(struct http_text *to, const char *name, const char *type, const char *help)
{
    const char *const parts[] = {"# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        http_text_put(to, parts[i]);
}

static void write_value(struct http_text *to, enum unit unit, uint64_t value)
{
    http_text_put(to, " ");
    if (unit == NANOSECONDS)
        http_text_seconds(to, value);
    else
        http_text_number(to, value);
    http_text_put(to, "\n");
}

static void write_metric(struct http_text *to, const char *name, const char *type, const char *help, enum unit unit,
                         uint64_t value)
{
    write_head(to, name, type, help);
    http_text_put(to, name);
    write_value(to, unit, value);
}

/* ---- Figures of spans ---- */

#define SPAN(name, type, help, unit, member) {"jespan_span_" name, type, help, unit, offsetof(struct http_series, member)}
static const struct metric span_metrics[] = {
    SPAN("inuse_bytes", "gauge", "Bytes that the span holds.", AS_IT_IS, inuse_bytes),
    SPAN("inuse_objects", "gauge", "Objects that the span holds.", AS_IT_IS, inuse_objects),
    SPAN("peak_bytes", "gauge", "The most that one context of the span and all below it held at once.", AS_IT_IS, peak_bytes),
    SPAN("outlived_bytes", "gauge", "Bytes that the span holds although it is closed.", AS_IT_IS, outlived_bytes),
    SPAN("alloc_bytes_total", "counter", "Bytes that the span has allocated.", AS_IT_IS, alloc_bytes),
    SPAN("alloc_objects_total", "counter", "Objects that the span has allocated.", AS_IT_IS, alloc_objects),
    SPAN("opens_total", "counter", "Number of times the span was opened.", AS_IT_IS, opens),
    SPAN("wall_seconds_total", "counter", "Time that the span was open, without its child spans.", NANOSECONDS, wall_ns),
    SPAN("busy_seconds_total", "counter", "Time that threads were in the span.", NANOSECONDS, busy_ns),
    SPAN("cpu_seconds_total", "counter", "CPU time that the span took.", NANOSECONDS, cpu_ns),
};

static void write_series(struct http_text *to, const struct metric *m, const struct http_series *series)
{
    http_text_put(to, m->name);
    http_text_put(to, "{");
    http_text_put(to, series->labels);
    http_text_put(to, "}");
    write_value(to, m->unit, *(const uint64_t *)((const char *)series + m->offset));
}

void http_metrics_write_series(struct http_text *to, const struct http_series_set *set)
{
    for (size_t i = 0; i < sizeof span_metrics / sizeof span_metrics[0]; i++) {
        const struct metric *m = &span_metrics[i];
        write_head(to, m->name, m->type, m->help);
        for (uint32_t k = 0; k < set->n; k++)
            write_series(to, m, &set->series[k]);
    }
}

/* ---- Figures of the process ---- */

#define ALL(name, type, help, unit, member) {"jespan_" name, type, help, unit, offsetof(struct totals, member)}
static const struct metric all_metrics[] = {
    ALL("alloc_bytes_total", "counter", "Bytes allocated.", AS_IT_IS, alloc_bytes),
    ALL("alloc_objects_total", "counter", "Objects allocated.", AS_IT_IS, alloc_objects),
    ALL("free_bytes_total", "counter", "Bytes freed.", AS_IT_IS, free_bytes),
    ALL("free_objects_total", "counter", "Objects freed.", AS_IT_IS, free_objects),
};

static void write_all(struct http_text *to, const struct totals *all)
{
    write_metric(to, "jespan_inuse_bytes", "gauge", "Bytes in use.", AS_IT_IS, totals_inuse_bytes(all));
    write_metric(to, "jespan_inuse_objects", "gauge", "Objects in use.", AS_IT_IS, totals_inuse_objects(all));
    for (size_t i = 0; i < sizeof all_metrics / sizeof all_metrics[0]; i++) {
        const struct metric *m = &all_metrics[i];
        write_metric(to, m->name, m->type, m->help, m->unit, *(const uint64_t *)((const char *)all + m->offset));
    }
}

/* What services that push count. */
#define PUSH_METRICS(service) \
    {#service ".pushes", "jespan_" #service "_pushes_total", "counter", "Profiles that the server accepted.", AS_IT_IS}, \
    {#service ".pushed_bytes", "jespan_" #service "_pushed_bytes_total", "counter", "Bytes of accepted profiles, as sent.", AS_IT_IS}, \
    {#service ".failures", "jespan_" #service "_failures_total", "counter", "Attempts that failed.", AS_IT_IS}, \
    {#service ".rejected", "jespan_" #service "_rejected_total", "counter", \
     "Failed attempts that the server refused for good.", AS_IT_IS}, \
    {#service ".uncertain", "jespan_" #service "_uncertain_total", "counter", \
     "Failed attempts after which the server may still have the profiles.", AS_IT_IS}, \
    {#service ".dropped", "jespan_" #service "_dropped_total", "counter", "Uncertain attempts that were not tried again.", AS_IT_IS}, \
    {#service ".merged", "jespan_" #service "_merged_total", "counter", "Periods that were merged into the next one.", AS_IT_IS}, \
    {#service ".folded", "jespan_" #service "_folded_total", "counter", \
     "Contexts that were folded, because there were too many.", AS_IT_IS}, \
    {#service ".queue_length", "jespan_" #service "_queue_length", "gauge", "Periods in the queue.", AS_IT_IS}, \
    {#service ".queue_bytes", "jespan_" #service "_queue_bytes", "gauge", "Bytes of the queue.", AS_IT_IS}, \
    {#service ".last_status", "jespan_" #service "_last_status", "gauge", "HTTP status of the last attempt.", AS_IT_IS}, \
    {#service ".last_latency_ns", "jespan_" #service "_last_latency_seconds", "gauge", "Time that the last attempt took.", NANOSECONDS}, \
    {#service ".last_success_s", "jespan_" #service "_last_success_timestamp_seconds", "gauge", \
     "When the server last accepted a profile, 0: never.", AS_IT_IS}

static const struct {
    const char *ctl, *name, *type, *help;
    enum unit unit;
} stats[] = {
    {"meta_bytes", "jespan_meta_bytes", "gauge", "Memory that jespan itself holds.", AS_IT_IS},
    {"map_bytes", "jespan_map_bytes", "gauge", "Memory of the page map.", AS_IT_IS},
    {"header_bytes", "jespan_header_bytes", "gauge", "Bytes of header tables in use.", AS_IT_IS},
    {"header_held_bytes", "jespan_header_held_bytes", "gauge", "Bytes of header tables, with those kept for later.", AS_IT_IS},
    {"pending_bytes", "jespan_pending_bytes", "gauge", "Bytes freed by the program that jemalloc does not have back yet.", AS_IT_IS},
    {"mapped_bytes", "jespan_mapped_bytes", "gauge", "Bytes of address space that jemalloc has mapped.", AS_IT_IS},
    {"committed_bytes", "jespan_committed_bytes", "gauge", "Bytes of it that are committed.", AS_IT_IS},
    {"contexts", "jespan_contexts", "gauge", "Number of contexts.", AS_IT_IS},
    {"overflow", "jespan_overflow_total", "counter",
     "Spans whose figures went to an ancestor, because there were too many contexts.", AS_IT_IS},
    {"recycled", "jespan_recycled_total", "counter", "Contexts whose number was given to another path.", AS_IT_IS},
    {"truncated", "jespan_truncated_total", "counter", "Names and labels that were cut or left out.", AS_IT_IS},
    {"unsampled", "jespan_unsampled_total", "counter", "Spans that samplers left out.", AS_IT_IS},
    {"dumps", "jespan_dumps_total", "counter", "Dumps written.", AS_IT_IS},
    {"lost_dumps", "jespan_lost_dumps_total", "counter", "Dumps that failed.", AS_IT_IS},
    {"threads", "jespan_threads", "gauge", "Number of threads.", AS_IT_IS},
    {"reporters", "jespan_reporters", "gauge", "Number of reporters.", AS_IT_IS},
    {"reporter_misses", "jespan_reporter_misses_total", "counter", "Rounds of reporters that were missed.", AS_IT_IS},
    {"reporter_errors", "jespan_reporter_errors_total", "counter", "Errors of reporters.", AS_IT_IS},
    {"arenas_refused", "jespan_arenas_refused_total", "counter", "Contexts for which no span arena was left.", AS_IT_IS},
    {"tcache_fallbacks", "jespan_tcache_fallbacks_total", "counter", "Allocations of caches for span arenas that failed.", AS_IT_IS},
    PUSH_METRICS(pyroscope),
    PUSH_METRICS(otlp),
    {"http.requests", "jespan_http_requests_total", "counter", "Requests with a status below 400, before this one.", AS_IT_IS},
    {"http.errors", "jespan_http_errors_total", "counter", "Requests with another status, or without an answer.", AS_IT_IS},
    {"http.sent_bytes", "jespan_http_sent_bytes_total", "counter", "Bytes of answers.", AS_IT_IS},
    {"http.folded", "jespan_http_folded_total", "counter", "Series left out of /metrics, because there were too many.", AS_IT_IS},
};

static void write_stats(struct http_text *to, const struct service_host *host)
{
    for (size_t i = 0; i < sizeof stats / sizeof stats[0]; i++) {
        char name[64];
        uint64_t value;
        size_t bytes = sizeof value;
        snprintf(name, sizeof name, "spans.stats.%s", stats[i].ctl);
        if (host->mallctl(name, &value, &bytes, NULL, 0) == 0)
            write_metric(to, stats[i].name, stats[i].type, stats[i].help, stats[i].unit, value);
    }
}

static void write_memory(struct http_text *to, const struct snapshot *s)
{
    uint64_t resident = http_resident_bytes(s);
    write_metric(to, "jespan_allocated_bytes", "gauge", "Bytes in use, and those that threads keep for their next allocations.",
                 AS_IT_IS, totals_inuse_bytes(&s->all) + s->pending_bytes);
    if (resident > 0)
        write_metric(to, "jespan_resident_bytes", "gauge", "Resident memory of the process.", AS_IT_IS, resident);
}

/* ---- The endpoint ---- */

/* Counters contain everything since the program began, for every scraper. */
void http_metrics_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    const struct service_host *host = source->host;
    (void)request;
    const struct snapshot *s = http_answer_look(source, answer); /* frees the series of another program */
    if (!s)
        return;
    if (!source->series)
        source->series = http_series_make(host->conf->series_labels, host->conf->http_max_series);
    if (!source->series || http_series_add(source->series, s) != 0) {
        http_answer_line(answer, 503, "there is no memory for the answer");
        return;
    }
    atomic_fetch_add_explicit(&host->http->folded, source->series->folded, memory_order_relaxed);
    answer->status = 200;
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    http_metrics_write_series(&answer->body, source->series);
    write_all(&answer->body, &s->all);
    write_metric(&answer->body, "jespan_peak_bytes", "gauge", "The most bytes that were in use at once.", AS_IT_IS,
                 snapshot_peak_bytes(s));
    write_memory(&answer->body, s);
    write_stats(&answer->body, host);
    http_arenas_write_metrics(&answer->body, host);
    http_alerts_write_metrics(&answer->body, host);
}
