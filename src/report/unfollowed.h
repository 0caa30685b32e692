/* SPDX-License-Identifier: BSD-2-Clause */
/* Says once that children which the program forked are not followed.
 *
 * A child that was forked without executing a program, and without follow_fork, writes nothing and costs nothing. So the
 * parent speaks for it, when it makes a dump or a push anyway. */
#ifndef JESPAN_UNFOLLOWED_H
#define JESPAN_UNFOLLOWED_H

/* In the thread that forked, in the parent. */
void unfollowed_note_fork(void);

/* In the child: forgets its parent's children. */
void unfollowed_after_fork(void);

/* Looks at the living children of the thread that forked last, and of the first thread, and writes a line on stderr where one of them has run for a
 * second without executing a program. The line comes once in a process, and not where follow_fork was configured either
 * way. Any thread; without allocation. */
void unfollowed_say(void);

#endif
