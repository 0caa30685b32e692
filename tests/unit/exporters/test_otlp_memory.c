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

/* Returns how it ends. */
static int make_request(const struct conf *configured, long failing)
{
    struct push_request request;
    struct otlp_source source;
    struct waiting w = {.digest = make_digest(), .inuse = true};
    n_calls = 0;
    fail_at = failing;
    watching = true;
    int made = otlp_source_make(&source, &(struct service_host){.conf = configured, .pid = 1, .program = "test"});
    if (made == 0)
        made = otlp_request_make(&request, &source, &w, 1000);
    fail_at = 0;
    and_all_after = false;
    watching = false;
    if (made > 0)
        push_request_free(&request);
    otlp_source_free(&source);
    digest_free(w.digest);
    return made;
}

int main(void)
{
    static const struct conf configured = {.otlp_max_bytes = 1 << 22, .track_time = TRACK_TIME_CPU, .resource_attributes = "a=b|c=d"};
    CHECK_EQ(make_request(&configured, 0), 1);
    long n_allocations = n_calls;
    CHECK(n_allocations > 10);
    for (long i = 1; i <= n_allocations; i++)
        for (int all = 0; all < 2; all++) {
            and_all_after = all;
            int made = make_request(&configured, i);
            CHECK(made == -ENOMEM || made == 1); /* it can do without some memory */
        }
    return check_result();
}
