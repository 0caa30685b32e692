/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle with stacks. The threads switch between all, sampled and off more than 1,000 times (STEPS_A_MODE) while they allocate.
 * Figures are as exact as without stacks: each context's figures contain those of its stacks.
 *
 * ORACLE_OPS, ORACLE_SEED: as for the oracle; 200,000 operations by default.
 */
static void check_stacks(const char *where);
static void maybe_switch(void);
#define ORACLE_CHECK_MORE check_stacks
#define ORACLE_EACH_STEP maybe_switch
#define ORACLE_OPS 200000
#include "oracle.c"

extern const char *jespan_conf;
const char *jespan_conf = "stacks:all,stacks_sample_bytes:4096";

#define STEPS_A_MODE 150 /* of all threads */

static void maybe_switch(void)
{
    static const char *const modes[] = {"off", "all", "sampled", "all", "all@parse|c*e", "sampled@thread:*"};
    static atomic_uint steps;
    unsigned step = atomic_fetch_add(&steps, 1);
    const char *mode = modes[step / STEPS_A_MODE % 6];
    if (step % STEPS_A_MODE == 0)
        CHECK_EQ(F(mallctl)("spans.stacks", NULL, NULL, &mode, sizeof mode), 0);
}

static void check_stacks(const char *where)
{
    (void)where;
    CHECK(ctl_u64("spans.stats.stacks.stacks") > 0);
    CHECK(ctl_u64("spans.stats.stacks.frames") > 0);
}
