/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of `alert`, for /metrics. */
#include "http_answer.h"

#include <inttypes.h>
#include <stdio.h>

static const struct metric {
    const char *ctl; /* spans.alerts.<i>.NAME */
    const char *name, *type, *help;
} metrics[] = {
    {"holding", "jespan_alert", "gauge", "Whether the rule of alert holds: 1, or 0."},
    {"fired", "jespan_alert_firings_total", "counter", "How often the rule began to hold."},
    {"bytes", "jespan_alert_bytes", "gauge", "The value of the rule when it was last evaluated."},
};

static bool ask(const struct service_host *host, uint64_t rule, const char *leaf, void *value, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "spans.alerts.%" PRIu64 ".%s", rule, leaf);
    return host->mallctl(name, value, &bytes, NULL, 0) == 0;
}

static void write_rule(struct http_text *to, const struct service_host *host, const struct metric *m, uint64_t rule)
{
    const char *text;
    uint64_t value;
    if (!ask(host, rule, "rule", &text, sizeof text) || !ask(host, rule, m->ctl, &value, sizeof value))
        return;
    http_text_put(to, m->name);
    http_text_put(to, "{rule=");
    http_text_label(to, text);
    http_text_put(to, "} ");
    http_text_number(to, value);
    http_text_put(to, "\n");
}

void http_alerts_write_metrics(struct http_text *to, const struct service_host *host)
{
    uint64_t n = 0;
    size_t bytes = sizeof n;
    if (host->mallctl("spans.alerts.count", &n, &bytes, NULL, 0) != 0 || n == 0)
        return;
    for (const struct metric *m = metrics; m < metrics + sizeof metrics / sizeof metrics[0]; m++) {
        const char *const head[] = {"# HELP ", m->name, " ", m->help, "\n# TYPE ", m->name, " ", m->type, "\n"};
        for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
            http_text_put(to, head[i]);
        for (uint64_t rule = 1; rule <= n; rule++)
            write_rule(to, host, m, rule);
    }
}
