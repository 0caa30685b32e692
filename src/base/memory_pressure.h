/* SPDX-License-Identifier: BSD-2-Clause */
/* Pressure stall information (PSI): how much of its time this process's cgroup (v2), or else the machine, loses to waiting for
 * memory. From the kernel's Documentation/accounting/psi.rst.
 */
#ifndef JESPAN_MEMORY_PRESSURE_H
#define JESPAN_MEMORY_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cgroups.h"
#include "base/procfile.h"

/* The kernel brings its sums up to date every two seconds, where nothing asks for more. */
#define PRESSURE_WINDOW_NS 2000000000u

struct pressure {
    const char *root; /* "": the real file systems; another directory in tests */
    struct procfile file;
    bool of_cgroup, known;
    char directory[CGROUP_PATH_BYTES];
    uint64_t stalled_us, at_ns; /* when it was read last, where it is known */
};

/* Whose pressure it is: that of the process's cgroup of version 2, if it has one ("": none) and the kernel says so; else the
 * machine's. Now and then again, as the process may be moved. */
void pressure_find(struct pressure *p, const char *cgroup2);

/* Percent of the time since the last reading that no task went on, as all waited for memory; 0 at the first one, or where the
 * kernel does not say. */
unsigned pressure_read(struct pressure *p, uint64_t now_ns);

/* Closes what is open, and forgets what was read. */
void pressure_close(struct pressure *p);

#endif
