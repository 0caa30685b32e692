/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds on this process's memory, and how much is used: memory cgroups (v2, v1) from its own up to the root,
 * RLIMIT_AS and RLIMIT_DATA. Where no cgroup bounds it, the machine's memory does.
 *
 * They are read from /proc and the cgroup file systems, on one thread, as procfile.h.
 */
#ifndef JESPAN_MEMORY_BOUNDS_H
#define JESPAN_MEMORY_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cgroups.h"
#include "base/procfile.h"

#define BOUNDS_MAX 12

enum bound_kind { BOUND_CGROUP2, BOUND_CGROUP1, BOUND_ADDRESSES, BOUND_DATA, BOUND_MACHINE };

struct bound {
    enum bound_kind kind;
    uint64_t used, bytes;
    struct procfile files[2];
    char directory[FILE_PATH_BYTES]; /* of a cgroup */
};

struct bounds {
    const char *root; /* "": the real file systems; another directory in tests */
    char cgroup2[CGROUP_PATH_BYTES]; /* the process's cgroup of version 2, even where it sets no bound; "": none */
    unsigned n;
    struct bound bound[BOUNDS_MAX];
};

/* Finds the bounds and their bytes. To be repeated now and then, since bounds change and a process may be moved.
 * Returns whether something changed. */
bool bounds_find(struct bounds *b);

/* Reads how much of a bound is used. The figure of a cgroup includes all file pages while it is below `enough`, and
 * from there on leaves out those that nobody used lately. Returns false where it cannot be read. */
bool bounds_read(const struct bounds *b, struct bound *bound, uint64_t enough);

/* Closes the files. */
void bounds_close(struct bounds *b);

/* "the memory cgroup", "the address space (RLIMIT_AS)" and so on. */
const char *bound_name(const struct bound *bound);

#endif
