/* SPDX-License-Identifier: BSD-2-Clause */
/* Pressure stall information (PSI): how much time this process's cgroup (v2), or else the machine, loses to waiting for
 * memory. The kernel's Documentation/accounting/psi.rst describes it.
 */
#ifndef JESPAN_MEMORY_PRESSURE_H
#define JESPAN_MEMORY_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cgroups.h"
#include "base/procfile.h"

/* The kernel updates its sums every two seconds, unless something asks for more. */
#define PRESSURE_WINDOW_NS 2000000000u

struct pressure {
    const char *root; /* "": the real file systems; another directory in tests */
    struct procfile file;
    bool of_cgroup, known;
    char directory[CGROUP_PATH_BYTES];
    uint64_t stalled_us, at_ns; /* the last reading, where `known` */
};

/* Chooses whose pressure is read: that of the process's cgroup of version 2, if it has one ("": none) with such a file,
 * else the machine's. To be repeated now and then, since the process may be moved. */
void pressure_find(struct pressure *p, const char *cgroup2);

/* Percent of the time since the last reading in which no task ran because all waited for memory. 0 for the first
 * reading, or where the kernel does not know. */
unsigned pressure_read(struct pressure *p, uint64_t now_ns);

/* Closes the file and forgets the last reading. */
void pressure_close(struct pressure *p);

#endif
