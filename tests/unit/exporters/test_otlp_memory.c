/* SPDX-License-Identifier: BSD-2-Clause */
/* OTLP requests without memory: each allocation in turn fails, alone or with all that follow. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../support/check.h"
#include "../../support/failing_malloc.h"
#include "../../support/made_snapshot.h"
#include "exporters/otlp_request.h"
#include "exporters/period.h"

static const struct digest_shape shape = {.labels = "", .all = true, .ids = true};

static struct digest *make_digest(void)
{
    struct snapshot *s = made_snapshot("rows", 20);
    struct period *p = period_make();
    struct digest *d = digest_make(&shape);
    CHECK_EQ(period_next(p, s, digest_add, d), 0);
    period_free(p);
    made_snapshot_free(s);
    return d;
}

static void make_request(const void *configured, long failing)
{
    struct push_request request;
    struct otlp_source source;
    struct waiting w = {.digest = make_digest(), .inuse = true};
    start_failing(failing);
    int made = otlp_source_make(&source, &(struct service_host){.conf = configured, .pid = 1, .program = "test"});
    if (made == 0)
        made = otlp_request_make(&request, &source, &w, 1000);
    stop_failing();
    CHECK(made == 1 || (failing && made == -ENOMEM)); /* it can do without some memory */
    if (made > 0)
        push_request_free(&request);
    otlp_source_free(&source);
    digest_free(w.digest);
}

int main(void)
{
    static const struct conf configured = {.otlp_max_bytes = 1 << 22, .track_time = TRACK_TIME_CPU, .resource_attributes = "a=b|c=d"};
    CHECK(fail_each(make_request, &configured) > 10);
    return check_result();
}
