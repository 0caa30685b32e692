/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle where one object in three is guarded. Each figure is as exact as without that: the books of jemalloc and of
 * guarded objects together have what all contexts have. No access is reported, since there is none that is wrong.
 *
 * ORACLE_OPS, ORACLE_SEED: as for the oracle; 100,000 operations by default.
 */
static void check_guarded(const char *where);
#define ORACLE_CHECK_MORE check_guarded
#define ORACLE_OPS 100000
#include "oracle.c"

extern const char *jespan_conf;
const char *jespan_conf = "guard_sample:3,guard_slots:500";

static void check_guarded(const char *where)
{
    (void)where;
    CHECK(ctl_u64("spans.stats.guard_objects") > 100);
}
