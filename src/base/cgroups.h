/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the memory cgroup of this process. */
#ifndef JESPAN_CGROUPS_H
#define JESPAN_CGROUPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/procfile.h"

#define CGROUP_PATH_BYTES (2 * FILE_PATH_BYTES)

/* Writes the directory of the process's cgroup of version 2, or of version 1 with the memory controller. `root` is the
 * root of the file systems: "", or a directory in tests. Returns the length of the mount point, with which the
 * directory begins, or 0 where there is no such cgroup. To be called on one thread, as procfile.h. */
size_t cgroup_find(const char *root, bool v2, char directory[CGROUP_PATH_BYTES]);

#endif
