/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps the calling thread on the processor where it is: the depot has a list for each. Needs _GNU_SOURCE. */
#ifndef TESTS_ONE_PROCESSOR_H
#define TESTS_ONE_PROCESSOR_H

#include <sched.h>
#include <stdlib.h>

static inline void stay_on_one_processor(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    if (sched_setaffinity(0, sizeof here, &here) != 0)
        abort();
}

#endif
