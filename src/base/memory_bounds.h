/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds on a process's memory, and how much is used: memory cgroups (v2, v1) from its own up to the root,
 * RLIMIT_AS and RLIMIT_DATA. Where no cgroup bounds it, the machine's memory does.
 *
 * They are read from /proc and the cgroup file systems, on one thread, as procfile.h.
 */
#ifndef JESPAN_MEMORY_BOUNDS_H
#define JESPAN_MEMORY_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/procfile.h"

/* ---- The memory cgroup of a process ---- */

#define CGROUP_PATH_BYTES (2 * FILE_PATH_BYTES)

/* Writes the directory of the process's cgroup of version 2, or of version 1 with the memory controller, as the caller
 * sees it. `root` is the root of the file systems: "", or a directory in tests. `pid` 0: the calling process.
 * Returns the length of the mount point, with which the directory begins, or 0 where there is no such
 * cgroup. To be called on one thread, as procfile.h. */
size_t cgroup_find(const char *root, pid_t pid, bool v2, char directory[CGROUP_PATH_BYTES]);

/* ---- Bounds ---- */

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
    pid_t pid;        /* 0: the calling process */
    char cgroup2[CGROUP_PATH_BYTES]; /* the process's cgroup of version 2, even where it sets no bound; "": none */
    unsigned n;
    struct bound bound[BOUNDS_MAX];
};

/* Finds the bounds and their bytes. To be repeated now and then, since bounds change and a process may be moved.
 * Returns whether something changed. */
bool bounds_find(struct bounds *b);

/* Reads how much of a bound is used. The figure of a cgroup includes all file pages while it is below `enough`, and
 * from there on leaves out file pages that nobody used lately. Returns false if the figure cannot be read. */
bool bounds_read(const struct bounds *b, struct bound *bound, uint64_t enough);

/* Closes the files. */
void bounds_close(struct bounds *b);

/* "the memory cgroup", "the address space (RLIMIT_AS)" and so on. */
const char *bound_name(const struct bound *bound);

/* ---- Pressure ---- */

/* Pressure stall information (PSI): how much time the process's cgroup (v2), or else the machine, loses to waiting for
 * memory. The kernel's Documentation/accounting/psi.rst describes it. */

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

/* ---- The forecast ---- */

/* It says when used memory reaches its bound, and when to look again. Depends only on the arguments. */

#define PACE_SLOW_NS 100000000u
#define PACE_FAST_NS 5000000u
#define PACE_FASTEST_NS 1000000u /* while the used memory grows by more than 100 MB/s */

/* SOON: half of the bound is used, and at the present rate it is reached within 200 ms. NOW: the threshold is
 * reached. */
enum pace_level { PACE_CALM, PACE_SOON, PACE_NOW };

/* Zeroed: no look yet. */
struct pace {
    uint64_t used, at_ns, rate; /* at the last look; rate in bytes/s */
    uint64_t calm_below;        /* with less used memory, `level` goes back to PACE_CALM */
    enum pace_level level;      /* on which the caller has acted */
};

/* Adds a look. Returns the level. If it is above p->level, the caller writes a dump and then calls pace_acted(). */
enum pace_level pace_look(struct pace *p, uint64_t used, uint64_t bound, uint64_t threshold, uint64_t now_ns);
void pace_acted(struct pace *p, enum pace_level level, uint64_t threshold);

/* The time until the next look. It is at most the time in which the fastest machine fills the rest, and a quarter of
 * the time to the threshold at the present rate. */
uint64_t pace_next_ns(const struct pace *p, uint64_t bound, uint64_t threshold);

#endif
