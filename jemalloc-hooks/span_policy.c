/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the system how to treat the pages of a span arena. Each part of a policy is a row in a table. */
#include "span_policy.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/meta.h"
#include "base/number.h"
#include "heap/classes.h"

#define NODES_MAX 1024
#define BITS_PER_WORD (sizeof(unsigned long) * CHAR_BIT)
struct nodes {
    unsigned long word[NODES_MAX / BITS_PER_WORD];
};

static bool wants_thp(const struct extent_policy *policy)
{
    return policy->thp != EXTENT_THP_DEFAULT;
}

static int set_thp(const struct extent_policy *policy, void *start, size_t bytes)
{
    return madvise(start, bytes, policy->thp == EXTENT_THP_ALWAYS ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static bool wants_dontdump(const struct extent_policy *policy)
{
    return policy->dontdump;
}

static int set_dontdump(const struct extent_policy *policy, void *start, size_t bytes)
{
    (void)policy;
    return madvise(start, bytes, MADV_DONTDUMP);
}

static bool wants_dontfork(const struct extent_policy *policy)
{
    return policy->dontfork;
}

static int set_dontfork(const struct extent_policy *policy, void *start, size_t bytes)
{
    (void)policy;
    return madvise(start, bytes, MADV_DONTFORK);
}

static bool wants_locked(const struct extent_policy *policy)
{
    return policy->locked;
}

/* jemalloc maps more than it needs at first. With MLOCK_ONFAULT only touched pages take memory. */
static int set_locked(const struct extent_policy *policy, void *start, size_t bytes)
{
    (void)policy;
    return mlock2(start, bytes, MLOCK_ONFAULT);
}

static bool wants_numa_node(const struct extent_policy *policy)
{
    return policy->numa_node >= 0;
}

/* With one node this has no effect. */
static int set_numa_node(const struct extent_policy *policy, void *start, size_t bytes)
{
    struct nodes wanted = {{0}};
    if (policy->numa_node >= NODES_MAX) {
        errno = EINVAL;
        return -1;
    }
    wanted.word[(size_t)policy->numa_node / BITS_PER_WORD] = 1ul << (size_t)policy->numa_node % BITS_PER_WORD;
    return (int)syscall(SYS_mbind, start, bytes, MPOL_PREFERRED, wanted.word, (unsigned long)NODES_MAX, 0u);
}

static const struct part {
    const char *name;
    bool (*wanted)(const struct extent_policy *policy);
    int (*set)(const struct extent_policy *policy, void *start, size_t bytes);
} parts[] = {
    {"huge pages as they want", wants_thp, set_thp},
    {"memory that is not dumped", wants_dontdump, set_dontdump},
    {"memory that is not forked", wants_dontfork, set_dontfork},
    {"locked memory", wants_locked, set_locked},
    {"memory of the NUMA node that they name", wants_numa_node, set_numa_node},
};
#define PARTS (sizeof parts / sizeof *parts)

unsigned span_policy_apply(const struct extent_policy *policy, void *start, size_t bytes)
{
    int saved = errno;
    unsigned failed = 0;
    for (size_t i = 0; i < PARTS; i++)
        failed += parts[i].wanted(policy) && parts[i].set(policy, start, bytes);
    errno = saved;
    return failed;
}

/* The number of nodes that this process may use; 1 where the system does not know nodes. */
static unsigned count_nodes(void)
{
    struct nodes allowed = {{0}};
    unsigned n = 0;
    if (syscall(SYS_get_mempolicy, NULL, allowed.word, (unsigned long)NODES_MAX, NULL,
                (unsigned long)MPOL_F_MEMS_ALLOWED))
        return 1;
    for (size_t i = 0; i < sizeof allowed.word / sizeof *allowed.word; i++)
        n += (unsigned)__builtin_popcountl(allowed.word[i]);
    return n;
}

static bool first_time(_Atomic bool *said)
{
    return !atomic_exchange(said, true);
}

COLD void span_policy_try(const struct extent_policy *policy)
{
    static _Atomic bool said[PARTS], said_nodes;
    int saved = errno;
    bool has_one_node = policy->numa_node >= 0 && count_nodes() < 2;
    char node[NUMBER_BYTES];
    if (has_one_node && first_time(&said_nodes))
        WARN("there is one NUMA node only: span arenas have their memory there, and node:",
             number_text(node, (uint64_t)policy->numa_node, 10), " has no effect");
    void *page = meta_map(HEADER_PAGE_BYTES);
    for (size_t i = 0; page && i < PARTS; i++)
        if (parts[i].wanted(policy) && parts[i].set(policy, page, HEADER_PAGE_BYTES)
            && !(has_one_node && parts[i].wanted == wants_numa_node) && first_time(&said[i]))
            WARN("span arenas cannot have ", parts[i].name, " here: ", errno_text(errno));
    meta_unmap(page, HEADER_PAGE_BYTES);
    errno = saved;
}
