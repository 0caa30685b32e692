/* SPDX-License-Identifier: BSD-2-Clause */
/* Lets all new mappings fail for a while. Existing mappings stay. */
#ifndef JESPAN_TESTS_NO_MEMORY_H
#define JESPAN_TESTS_NO_MEMORY_H

#include <sys/resource.h>

static struct rlimit no_memory_had;

/* 0, or what setrlimit() returned. */
static inline int no_memory_begin(void)
{
    getrlimit(RLIMIT_AS, &no_memory_had);
    return setrlimit(RLIMIT_AS, &(struct rlimit){0, no_memory_had.rlim_max});
}

static inline int no_memory_end(void)
{
    return setrlimit(RLIMIT_AS, &no_memory_had);
}

#endif
