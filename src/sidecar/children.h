/* SPDX-License-Identifier: BSD-2-Clause */
/* Children of a process that the sidecar serves. */
#ifndef JESPAN_CHILDREN_H
#define JESPAN_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

/* A child that has run for a second without executing a program. 0: there is none. */
pid_t children_unfollowed(pid_t process);

/* A child that is in a PID namespace which its parent is not in. 0: there is none. */
pid_t children_outside(pid_t process);

/* Whether a process lives whose program was started with a JESPAN_CONF that ends with this text, or whose program is being started
 * right now, so that its environment cannot be read yet. */
bool children_have_conf(const char *ending);

#endif
