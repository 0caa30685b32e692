/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports for other processes until they end: one loop that waits for the next reading, the next dump, or an end. */
#include "sidecar/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/number.h"
#include "base/process_stat.h"
#include "conf/conf.h"
#include "report/dump_dir.h"
#include "sidecar/children.h"
#include "sidecar/end_line.h"
#include "sidecar/ending.h"
#include "sidecar/event_dumps.h"
#include "sidecar/modules.h"
#include "sidecar/page.h"
#include "sidecar/served.h"
#include "snapshot/view.h"

#define LOOK_EVERY_NS UINT64_C(1000000000) /* for processes that have taken a slot */
#define FORKED_AFTER_NS UINT64_C(10000000) /* for forked children: many execute a program at once */
#define EXPECT_FOR_NS UINT64_C(1000000000) /* after the last end, for processes that are about to take one */
#define EXPECT_EVERY_NS UINT64_C(50000000)
#define LEAVE_AFTER_NS UINT64_C(5000000000)

enum { SIGNALS, RINGS, MODULES, FIRST_PROCESS };

static struct sidecar {
    bool quiet;
    struct served *first_served;
    size_t n_served;
    struct pollfd *fds;
    size_t room; /* of fds */
    int signals, rings, modules;
    uint64_t next_look_ns;
    uint64_t leave_ns; /* it was told to end, and waits until then for processes that were told so too; UINT64_MAX: it was not */
    uint64_t last_end_ns; /* of a process that was served */
    char page_ending[64]; /* of the configuration of processes that use the page. "": there is none */
    uint64_t woke_ns; /* others may take long to end, so each age counts until here */
} sidecar;

/* ---- The processes ---- */

/* NULL: it is not served. */
static struct served *find_served(pid_t pid)
{
    struct served *p = sidecar.first_served;
    while (p && p->pid != pid)
        p = p->next;
    return p;
}

/* Makes room for the descriptor too. */
static struct served *add_served(pid_t pid, int pidfd, bool is_first, bool needs_slot)
{
    if (array_reserve(&sidecar.fds, &sidecar.room, FIRST_PROCESS + sidecar.n_served + 1, sizeof *sidecar.fds))
        return NULL;
    struct served *p = served_new(pid, pidfd, is_first, needs_slot);
    if (!p)
        return NULL;
    p->next = sidecar.first_served;
    sidecar.first_served = p;
    sidecar.n_served++;
    return p;
}

/* Servers change their user after the start. */
static void say_unreadable(pid_t pid)
{
    static bool has_said;
    char number[NUMBER_BYTES];
    if (!has_said)
        WARN("process ", number_text(number, (uint64_t)pid, 10), " cannot be read, as it runs as another user or has other "
             "rights; nothing of it and of others like it is reported; jespan run --in-process has them report by themselves");
    has_said = true;
}

/* Once for all. Processes there have other numbers, and mostly another /proc, so they cannot say when they begin and end. */
static void say_left_out(void)
{
    static bool has_said;
    char number[NUMBER_BYTES];
    pid_t pid = page_left_out();
    if (has_said || pid <= 0)
        return;
    has_said = true;
    WARN("process ", number_text(number, (uint64_t)pid, 10), " is in a PID namespace of its own or has children in one, which are "
         "left out here; jespan serve PID reports for one of them (jespan ps lists them), and jespan run --in-process has all "
         "of them report by themselves");
}

/* ADDRESSES PERMISSIONS OFFSET DEVICE INODE NAME */
static uint64_t inode_in(const char *line)
{
    unsigned long long inode = 0;
    return sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 ? inode : 0;
}

/* A number in a slot may be that of another process: of a later one, which may even have a page of another sidecar. */
static bool has_page(pid_t pid)
{
    char path[PROCESS_PATH_BYTES], *line = NULL;
    size_t bytes = 0;
    bool found = false;
    FILE *maps = fopen(process_path(path, pid, "maps"), "re");
    if (!maps && errno == EACCES)
        say_unreadable(pid);
    while (maps && !found && getline(&line, &bytes, maps) > 0)
        found = strstr(line, "/memfd:" SIDECAR_PAGE_NAME " ") && page_has_inode(inode_in(line));
    if (maps)
        fclose(maps);
    free(line);
    return found;
}

static void begin_served(struct sidecar_slot *slot, pid_t pid)
{
    int pidfd = descriptor_lift((int)syscall(SYS_pidfd_open, pid, 0));
    struct served *p = pidfd >= 0 && has_page(pid) ? add_served(pid, pidfd, false, true) : NULL;
    if (p) {
        p->slot = slot;
        return;
    }
    page_empty(slot, pid);
    if (pidfd >= 0)
        close(pidfd);
}

static void look_for_processes(void)
{
    page_forget_forks();
    for (struct sidecar_slot *slot = NULL; (slot = page_next(slot));) {
        pid_t pid = (pid_t)load_acquire(&slot->pid);
        struct served *p = pid > 0 ? find_served(pid) : NULL;
        if (p)
            p->slot = slot;
        else if (pid > 0)
            begin_served(slot, pid);
    }
    say_left_out();
    sidecar.next_look_ns = page_is_open() ? clock_ns(CLOCK_MONOTONIC) + LOOK_EVERY_NS : UINT64_MAX;
}

static void end_served(struct served *p)
{
    struct ending e = ending_of(&p->watch);
    e.by_ns = sidecar.woke_ns;
    bool is_anothers = page_is_handed_over(p->pid);
    bool wants_files = conf.dump_dir[0] || conf.flame_file[0] || conf.flame_svg_file[0] || conf.events_file[0] || conf.trace_file[0];
    served_end(p, &e);
    if (!p->is_first || sidecar.quiet)
        return;
    if (is_anothers) /* the figures are those of `jespan run`, before it became the program */
        p->peak.all_bytes = 0;
    if ((p->was_read && !is_anothers) || served_dumps.n > 0)
        end_line_say(p, &e);
    else if (!is_anothers && wants_files)
        end_line_say_unread(p, &e);
}

/* Frees those that have ended. Their descriptors follow one another in the order of the list. */
static void end_those_that_ended(size_t n_polled)
{
    struct pollfd *fd = sidecar.fds + FIRST_PROCESS, *end = sidecar.fds + n_polled;
    for (struct served **at = &sidecar.first_served; *at && fd < end; fd++) {
        struct served *p = *at;
        if (!fd->revents) {
            at = &p->next;
            continue;
        }
        end_served(p);
        *at = p->next;
        sidecar.n_served--;
        served_free(p);
        sidecar.last_end_ns = sidecar.woke_ns;
    }
}

static void leave_all(void)
{
    for (struct served *p; (p = sidecar.first_served); served_free(p)) {
        served_leave(p);
        sidecar.first_served = p->next;
        sidecar.n_served--;
    }
}

/* ---- The loop ---- */

static int open_signals(bool is_early)
{
    sigset_t all, ends;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    if (!is_early)
        sigaddset(&ends, SIGINT);
    return descriptor_lift(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
}

static size_t fill_descriptors(void)
{
    struct pollfd *fd = sidecar.fds;
    *fd++ = (struct pollfd){sidecar.signals, POLLIN, 0};
    *fd++ = (struct pollfd){sidecar.rings, POLLIN, 0};
    *fd++ = (struct pollfd){sidecar.modules, POLLIN, 0};
    for (struct served *p = sidecar.first_served; p; p = p->next)
        *fd++ = (struct pollfd){p->pidfd, POLLIN, 0};
    return (size_t)(fd - sidecar.fds);
}

static uint64_t next_ns(void)
{
    uint64_t next = lesser(lesser(sidecar.next_look_ns, sidecar.leave_ns), modules_next_ns());
    for (struct served *p = sidecar.first_served; p; p = p->next)
        next = lesser(next, served_next_ns(p));
    return next;
}

/* Waits until something is due, a process asks or ends, or a service ends. */
static void wait_for_something(size_t n_fds)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), until_ns = next_ns(), ns = until_ns > now ? until_ns - now : 0;
    const struct timespec wait = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (ppoll(sidecar.fds, n_fds, &wait, NULL) <= 0)
        for (size_t i = 0; i < n_fds; i++)
            sidecar.fds[i].revents = 0;
    sidecar.woke_ns = clock_ns(CLOCK_MONOTONIC);
    page_hush();
}

/* Whether processes have rung that it may not know and that wait. Those that were forked are looked for soon. */
static bool is_called(void)
{
    if (!sidecar.fds[RINGS].revents)
        return false;
    if (page_has_forks())
        sidecar.next_look_ns = lesser(sidecar.next_look_ns, sidecar.woke_ns + FORKED_AFTER_NS);
    return page_is_awaited();
}

/* Returns false when the sidecar was told to end. */
static bool run_once(void)
{
    size_t n = fill_descriptors();
    wait_for_something(n);
    bool is_told = sidecar.fds[SIGNALS].revents;
    end_those_that_ended(n);
    if (is_called() || clock_ns(CLOCK_MONOTONIC) >= sidecar.next_look_ns)
        look_for_processes();
    for (struct served *p = sidecar.first_served; p; p = p->next)
        served_tend(p);
    modules_collect();
    page_rest();
    return !is_told;
}

/* A child of the program that ended may be about to execute a program. It has no slot before that. */
static bool expects_more(void)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (!page_is_open() || now - sidecar.last_end_ns >= EXPECT_FOR_NS || !children_have_conf(sidecar.page_ending))
        return false;
    sidecar.next_look_ns = now + EXPECT_EVERY_NS;
    return true;
}

/* A process that takes a slot now is found by the last look, or is left out. */
static bool is_over(void)
{
    if (sidecar.first_served || modules_next_ns() != UINT64_MAX || expects_more())
        return false;
    page_close(true);
    look_for_processes();
    if (sidecar.first_served)
        page_close(false);
    return !sidecar.first_served;
}

/* Returns false where it shall leave at once: it was told a second time, or serves a process that it did not start. A service
 * manager tells all processes of a unit to end, and theirs shall be reported, which may take them a while. */
static bool waits_for_ends(void)
{
    struct signalfd_siginfo told;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (!page_is_open() || sidecar.leave_ns != UINT64_MAX || read(sidecar.signals, &told, sizeof told) < 0)
        return false;
    sidecar.leave_ns = now + LEAVE_AFTER_NS;
    return true;
}

static void serve(void)
{
    while (!is_over() && clock_ns(CLOCK_MONOTONIC) < sidecar.leave_ns)
        if (!run_once() && !waits_for_ends())
            break;
    page_close(true);
    leave_all();
    sidecar.fds[SIGNALS].fd = sidecar.fds[RINGS].fd = -1;
    while (modules_next_ns() != UINT64_MAX) {
        wait_for_something(FIRST_PROCESS);
        modules_collect();
    }
    modules_stop_common(clock_ns(CLOCK_MONOTONIC) + conf.shutdown_timeout_ms * UINT64_C(1000000));
}

/* ---- The start ---- */

/* Where the system allows it, the OOM killer chooses others first. */
static void survive(void)
{
    int fd = descriptor_open("/proc/self/oom_score_adj", O_WRONLY, 0);
    if (fd < 0)
        return;
    if (write(fd, "-900", 4) < 0)
        errno = 0; /* only root may */
    close(fd);
}

/* Each process takes two descriptors. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static enum sidecar_wants find_wants(void)
{
    return modules_deliver_last() ? SIDECAR_WANTS_ALL : conf.dump_dir[0] && conf.dump_at_exit ? SIDECAR_WANTS_DUMPED : SIDECAR_WANTS_NONE;
}

static int start(const struct sidecar_options *o)
{
    sidecar = (struct sidecar){.quiet = o->quiet, .rings = -1, .next_look_ns = UINT64_MAX, .leave_ns = UINT64_MAX};
    sidecar.signals = open_signals(o->is_early);
    sidecar.modules = modules_open();
    if (sidecar.signals < 0 || sidecar.modules < 0)
        return sidecar.modules < 0 ? sidecar.modules : -errno;
    if (o->page >= 0)
        sidecar.rings = page_open(o->page, find_wants(), event_dumps_boot());
    if (o->page >= 0 && sidecar.rings < 0)
        return sidecar.rings;
    struct served *p = add_served(o->pid, o->pidfd, true, page_is_open());
    if (page_is_open()) {
        sidecar.next_look_ns = 0;
        snprintf(sidecar.page_ending, sizeof sidecar.page_ending, ",sidecar:/proc/%d/fd/%d", (int)getpid(), o->page);
    }
    return !p ? -ENOMEM : o->is_early ? 0 : served_find(p);
}

static void tell_ready(int ready, int error)
{
    int positive = -error;
    if (ready < 0)
        return;
    if (write(ready, &positive, sizeof positive) < 0)
        errno = 0; /* the process was killed */
    close(ready);
}

int sidecar_run(const struct sidecar_options *o)
{
    clock_boot();
    survive();
    allow_descriptors();
    served_boot();
    int error = start(o);
    tell_ready(o->ready, error);
    if (!error || error == -EAGAIN)
        serve();
    if (conf.dump_dir[0])
        dump_dir_remove_empty(conf.dump_dir, (uint64_t)o->pid);
    return error == -EAGAIN ? 0 : error;
}
