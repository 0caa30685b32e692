/* SPDX-License-Identifier: BSD-2-Clause */
/* Where this process's memory cgroup is. */
#ifndef JESPAN_CGROUPS_H
#define JESPAN_CGROUPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/procfile.h"

#define CGROUP_PATH_BYTES (2 * FILE_PATH_BYTES)

/* Of version 2, or of 1 with the memory controller, as seen from `root` ("": the real file systems). Returns the length of
 * its beginning that is the mount point, 0: there is none. On one thread, as procfile.h. */
size_t cgroup_find(const char *root, bool v2, char directory[CGROUP_PATH_BYTES]);

#endif
