/* SPDX-License-Identifier: BSD-2-Clause */
/* Pushes without memory: each allocation in turn fails, alone or with all that follow. Such a period is not taken
 * for an empty one, and a period for which there was room is not lost. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../support/check.h"
#include "../../support/failing_malloc.h"
#include "../../support/made_snapshot.h"
#include "exporters/period.h"
#include "exporters/pyroscope_request.h"

static const struct digest_shape shape = {.labels = "route", .ids = true};

/* The digest of a period with many changes. */
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

static void make_request(const void *source, long failing)
{
    struct push_request request;
    struct waiting w = {.digest = make_digest(), .inuse = true};
    start_failing(failing);
    int made = pyroscope_request_make(&request, source, &w, 1000);
    stop_failing();
    CHECK(made == 1 || (failing && made == -ENOMEM)); /* it can do without some memory */
    if (made > 0)
        push_request_free(&request);
    digest_free(w.digest);
}

static void check_requests(uint64_t api)
{
    struct conf configured = {.pyroscope_max_bytes = 1 << 22, .track_time = TRACK_TIME_CPU, .pyroscope_api = api};
    struct pyroscope_source source;
    pyroscope_source_make(&source, &(struct service_host){.conf = &configured, .pid = getpid(), .program = program_invocation_short_name});
    CHECK(fail_each(make_request, &source) > 10);
    pyroscope_source_free(&source);
}

static void what_was_reserved_is_there(void)
{
    struct push_queue q = {.max_bytes = SIZE_MAX, .max_age_ns = UINT64_MAX};
    struct digest *d = make_digest();
    and_all_after = true;
    start_failing(1);
    CHECK(!push_queue_reserve(&q));
    CHECK(!push_queue_add(&q, d, 1));
    watching = false;
    CHECK(push_queue_reserve(&q));
    watching = true;
    CHECK(push_queue_add(&q, d, 1));
    watching = and_all_after = false;
    CHECK_EQ(q.n, 1);
    CHECK(push_queue_reserve(&q)); /* it is freed with the queue */
    push_queue_free(&q);
}

int main(void)
{
    check_requests(PYROSCOPE_PUSH);
    check_requests(PYROSCOPE_INGEST);
    what_was_reserved_is_there();
    return check_result();
}
