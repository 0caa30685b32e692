/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes one message if the program forks children that are not followed.
 *
 * Without follow_fork, a forked child that executes no program writes nothing and costs nothing. So the parent writes
 * the message, when it makes a dump or a push. */
#ifndef JESPAN_UNFOLLOWED_H
#define JESPAN_UNFOLLOWED_H

#include <sys/types.h>

/* ---- Children that have executed no program ---- */

/* A child of that thread of a process which has run for a second without executing a program. 0: there is none. Allocates
 * nothing. */
unsigned long forked_children_find(pid_t process, pid_t thread);

/* The rest of the message about them, after "forked processes such as" and the number. */
#define FORKED_CHILDREN_TEXT                                                                                            \
    " are not followed: they write no dumps, push nothing and answer nothing; add --follow-fork to jespan run, or "     \
    "follow_fork:true to JESPAN_CONF, to follow them, or follow_fork:false to hide this message"

/* ---- The message ---- */

/* In the parent, on the thread that forked. */
void unfollowed_note_fork(void);

/* In the child: forgets the children of its parent. */
void unfollowed_after_fork(void);

/* Looks at the living children of the last thread that forked, and of the first thread. Writes a line on stderr if one
 * of them has run for a second without executing a program. The line comes once in a process, and never if follow_fork
 * was configured. On any thread. Allocates nothing. */
void unfollowed_say(void);

#endif
