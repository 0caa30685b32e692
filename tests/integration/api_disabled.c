/* SPDX-License-Identifier: BSD-2-Clause */
/* For api.sh: a program in C and C++ that uses all of the API. With JESPAN_DISABLE it needs no library, and each
 * function returns what docs/decisions/018-api-for-1.0.md says. */
#define JESPAN_TARGET "api"
#include <jespan/jespan.h>
#include <jespan/alert.h>
#include <jespan/limit.h>
#include <jespan/mallctl.h>
#include <jespan/reporter.h>
#include <jespan/snapshot.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#include <jespan/jespan.hpp>

#include <string>
#include <utility>
#include <vector>
#endif

static int failures, evaluated;

#define IS(expression, expected) is(__LINE__, #expression, (long long)(expression), (long long)(expected))

static void is(int line, const char *what, long long value, long long expected)
{
    if (value == expected)
        return;
    fprintf(stderr, "api_disabled: line %d: %s is %lld, not %lld\n", line, what, value, expected);
    failures++;
}

/* Arguments of macros are not evaluated. */
static const char *text(const char *s)
{
    evaluated++;
    return s;
}

JESPAN_SITE(plain_site, "plain");
JESPAN_SITE_ARENA(region_site, "region", JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED);

JESPAN_REPORTER(nothing);
const struct jespan_reporter jespan_reporter_nothing = {sizeof(struct jespan_reporter), "nothing", NULL, NULL, NULL, NULL, NULL,
                                                        NULL, NULL, NULL, NULL, NULL};

static int sample_none(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)site, (void)labels, (void)n_labels, (void)user;
    return 0;
}

static void on_limit(const struct jespan_limit_event *event, void *user)
{
    (void)event, (void)user;
}

static void on_alert(const struct jespan_alert_event *event, void *user)
{
    (void)event, (void)user;
}

static char *macros(jespan_context_t context)
{
    struct jespan_traceparent trace = {"", "", JESPAN_TRACE_SAMPLED};
    JESPAN("block");
    JESPAN("block", "key", text("value"), "other", "value");
    JESPAN_WITH("block", JESPAN_LABEL("key", text("value")), JESPAN_LABEL_INT("number", ++evaluated));
    JESPAN_WITH("block", JESPAN_TRACE_LABELS(trace));
    JESPAN_CREDIT(context);
    JESPAN_CREDIT((evaluated++, context));
    JESPAN_REGION("region");
    JESPAN_REGION_OF(&region_site);
    return strdup("a region keeps what it has");
}

static void spans(void)
{
    const struct jespan_label labels[] = {JESPAN_LABEL("key", "value"), JESPAN_LABEL_INT("number", 7)};
    jespan_span_t *span = jespan_open(&plain_site, JESPAN_CURRENT, labels, 2);
    errno = EDOM;
    IS(span != NULL, 1);
    IS(jespan_enter(span), 0);
    IS(jespan_add_label(span, labels), 0);
    IS(jespan_ref(span), 0);
    IS(jespan_unref(span), 0);
    IS(jespan_exit(span), 0);
    IS(jespan_close(span), 0);
    IS(errno, EDOM);
}

static void contexts(void)
{
    struct jespan_traceparent trace;
    char *p = macros(jespan_current());
    IS(strcmp(p, "a region keeps what it has"), 0);
    IS(evaluated, 0);
    IS(jespan_current(), JESPAN_ROOT);
    IS(jespan_attach(JESPAN_BASE), JESPAN_ROOT);
    IS(jespan_attach(JESPAN_ROOT) != JESPAN_INVALID, 1);
    IS(jespan_credit(p, JESPAN_ROOT), 0);
    jespan_set_sampler(sample_none, NULL);
    IS(jespan_parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &trace), EINVAL);
    IS(jespan_publish_trace(NULL), ENOTSUP);
    free(p);
}

static void snapshots(void)
{
    jespan_snapshot_t *s = jespan_snapshot_take();
    struct jespan_snapshot_change change = {NULL, NULL, 0, 0};
    struct jespan_label label;
    char path[8] = "x";
    const jespan_row_t *row = jespan_snapshot_next(s, NULL);
    IS(s != NULL, 1);
    IS(row == NULL, 1);
    IS(jespan_snapshot_find(s, JESPAN_ROOT) == NULL, 1);
    IS(jespan_row_parent(s, row) == NULL, 1);
    IS(jespan_snapshot_time_ns(s), 0);
    IS(jespan_snapshot_figure(s, JESPAN_INUSE_BYTES), 0);
    IS(jespan_row_context(row), 0);
    IS(jespan_row_id(row), 0);
    IS(strlen(jespan_row_kind(row)) + strlen(jespan_row_name(row)) + strlen(jespan_row_target(row)) + strlen(jespan_row_file(row)), 0);
    IS(jespan_row_line(row), 0);
    IS(jespan_row_n_labels(row), 0);
    IS(jespan_row_label(row, 0, &label), EINVAL);
    IS(jespan_row_path(s, row, path, sizeof path), 0);
    IS(path[0], 0);
    IS(jespan_row_figure(row, JESPAN_INUSE_BYTES), 0);
    IS(jespan_row_total(s, row, JESPAN_INUSE_BYTES), 0);
    IS(jespan_snapshot_next_change(s, s, &change), ENOENT);
    IS(jespan_change_figure(&change, JESPAN_INUSE_BYTES), 0);
    jespan_snapshot_free(s);
}

static void others(void)
{
    uint64_t bytes = 17;
    size_t size = sizeof bytes, mib[4], length = 4;
    IS(jespan_set_limit(JESPAN_CURRENT, 1, 2), 0);
    IS(jespan_set_limit_callback(on_limit, NULL), 0);
    IS(jespan_set_alert_callback(on_alert, NULL), 0);
    jespan_registration_t *registration = jespan_register_reporter(&jespan_reporter_nothing, 0);
    IS(registration != NULL, 1);
    IS(jespan_flush_reporters(1000), 0);
    IS(jespan_unregister_reporter(registration), 0);
    IS(mallctl("spans.all.inuse_bytes", &bytes, &size, NULL, 0), ENOENT);
    IS(mallctlnametomib("spans.all.inuse_bytes", mib, &length), ENOENT);
    IS(mallctlbymib(mib, 0, &bytes, &size, NULL, 0), ENOENT);
    IS(bytes, 17);
}

#ifdef __cplusplus
static void classes()
{
    std::string tenant = "acme";
    const jespan::label label{"tenant", tenant};
    jespan::span opened{plain_site, {label, {"shard", 7}}}, span{std::move(opened)};
    IS(bool(span), true);
    IS(bool(opened), false);
    IS(span.add_label(label), 0);
    {
        jespan::scope scope{span}, own{plain_site}, labelled{plain_site, {{"key", "value"}}};
        jespan::attachment attachment{jespan_current()};
        IS(bool(attachment), true);
    }
    IS(span.close(), 0);
    jespan::limit limit{JESPAN_CURRENT, 0, 100};
    IS(limit.error(), 0);
    jespan::resource resource{jespan_current()};
    jespan::region region{region_site};
    IS(jespan_close(region.span()), 0);
    std::pmr::vector<int> kept(1000, 1, &resource), gone(1000, 2, &region);
    IS(kept[999] + gone[999], 3);
}
#else
static void classes(void)
{
}
#endif

int main(void)
{
    spans();
    contexts();
    others();
    snapshots();
    classes();
    printf("version %d.%d.%d\n", JESPAN_VERSION_MAJOR, JESPAN_VERSION_MINOR, JESPAN_VERSION_PATCH);
    return failures != 0;
}
