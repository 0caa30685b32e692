/* SPDX-License-Identifier: BSD-2-Clause */
/* What bounds the memory of this process, and how much of it is used: memory cgroups (v2, v1) from its own up to the
 * root, RLIMIT_AS and RLIMIT_DATA; where no cgroup bounds it, the machine's memory.
 *
 * Read from /proc and the cgroup file systems, on one thread, as procfile.h.
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
    char cgroup2[CGROUP_PATH_BYTES]; /* the directory of the process's cgroup of version 2, whether it bounds it or not; "": none */
    unsigned n;
    struct bound bound[BOUNDS_MAX];
};

/* Finds the bounds that there are, with their bytes. Now and then again, since they may be changed and the process moved.
 * Returns whether they are others than before. */
bool bounds_find(struct bounds *b);

/* Reads what is used of one. Of a cgroup: less than `enough` with all file pages; else without those that nobody used
 * lately. False: it cannot be read. */
bool bounds_read(const struct bounds *b, struct bound *bound, uint64_t enough);

/* Closes what is open. */
void bounds_close(struct bounds *b);

/* "the memory cgroup", "the address space (RLIMIT_AS)" and so on. */
const char *bound_name(const struct bound *bound);

#endif
