/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes one message if the program forks children that are not followed. */
#include "report/unfollowed.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/forked.h"
#include "conf/conf.h"
#include "report/forked_children.h"

static WRITTEN_AT_FORK _Atomic pid_t forker; /* 0: no message is due */
static WRITTEN_AT_FORK _Atomic bool has_said;

COLD void unfollowed_note_fork(void)
{
    if (!conf_follow_fork_chosen && !load_relaxed(&has_said))
        store_relaxed(&forker, gettid());
}

COLD void unfollowed_after_fork(void)
{
    store_relaxed(&forker, 0);
    store_relaxed(&has_said, false);
}

void unfollowed_say(void)
{
    char number[NUMBER_BYTES];
    pid_t thread = load_relaxed(&forker);
    if (!thread)
        return;
    unsigned long pid = forked_children_find(getpid(), thread);
    if (!pid && thread != getpid())
        pid = forked_children_find(getpid(), getpid()); /* children of a thread that ended move to the first thread */
    if (!pid || atomic_exchange(&has_said, true))
        return;
    store_relaxed(&forker, 0);
    WARN("forked processes such as ", number_text(number, pid, 10), FORKED_CHILDREN_TEXT);
}
