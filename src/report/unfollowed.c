/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes one message if the program forks children that are not followed. */
#include "report/unfollowed.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/forked.h"
#include "base/process_stat.h"
#include "conf/conf.h"

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

/* ---- Children that have executed no program ---- */

#define FORKED_WITHOUT_EXEC 0x40 /* PF_FORKNOEXEC of the kernel's linux/sched.h */
#define MIN_AGE_NS 1000000000u   /* younger ones may be about to execute a program */
#define TEXT_BYTES 4096          /* some 500 children */

static bool read_text(const char *path, char text[TEXT_BYTES])
{
    int fd = descriptor_open(path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, TEXT_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* A child that has run for a second and has executed nothing. */
static bool is_unfollowed(pid_t parent, unsigned long pid)
{
    struct process_stat stat;
    if (!process_stat_read(&stat, (pid_t)pid) || process_stat_number(&stat, 4) != (unsigned long long)parent ||
        !(process_stat_number(&stat, 9) & FORKED_WITHOUT_EXEC))
        return false; /* the list of children may be cut inside its last number */
    uint64_t began_ns = process_stat_number(&stat, 22) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    return began_ns + MIN_AGE_NS <= clock_ns(CLOCK_BOOTTIME);
}

unsigned long forked_children_find(pid_t process, pid_t thread)
{
    char path[64], children[TEXT_BYTES], *end;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)thread);
    if (!read_text(path, children))
        return 0;
    for (const char *at = children;; at = end) {
        unsigned long pid = strtoul(at, &end, 10);
        if (end == at || is_unfollowed(process, pid))
            return end == at ? 0 : pid;
    }
}
