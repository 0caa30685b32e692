/* SPDX-License-Identifier: BSD-2-Clause */
/* Children that have executed no program. */
#ifndef JESPAN_FORKED_CHILDREN_H
#define JESPAN_FORKED_CHILDREN_H

#include <sys/types.h>

/* A child of that thread of a process which has run for a second without executing a program. 0: there is none. Allocates
 * nothing. */
unsigned long forked_children_find(pid_t process, pid_t thread);

/* The rest of the message about them, after "forked processes such as" and the number. */
#define FORKED_CHILDREN_TEXT                                                                                            \
    " are not followed: they write no dumps, push nothing and answer nothing; add --follow-fork to jespan run, or "     \
    "follow_fork:true to JESPAN_CONF, to follow them, or follow_fork:false to hide this message"

#endif
