/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether stacks are taken, and how many were lost. */
#include "stacks/stacks.h"

#include <string.h>

#include "conf/conf.h"
#include "stacks/frames.h"
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

_Atomic uint32_t stacks_mode;
struct stacks_stats stacks_stats;

static const char *const mode_texts[] = {[STACKS_OFF] = "off", [STACKS_SAMPLED] = "sampled", [STACKS_ALL] = "all"};

COLD int stacks_boot(void)
{
    store_relaxed(&stacks_stats.sample_bytes, conf.stacks_sample_bytes);
    int error = rules_boot();
    if (!error)
        error = frames_boot((uint32_t)conf.max_stacks);
    if (!error)
        unwind_boot();
    return error;
}

const char *stacks_mode_text(enum stacks_mode mode)
{
    return mode_texts[mode];
}

int stacks_mode_of(const char *text)
{
    for (int i = 0; i <= STACKS_ALL; i++)
        if (!strcmp(text, mode_texts[i]))
            return i;
    return -1;
}
