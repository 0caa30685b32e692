/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of other processes. */
#include "snapshot/view.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/process_stat.h"
#include "snapshot/books.h"
#include "snapshot/core_file.h"
#include "snapshot/event_reader.h"
#include "snapshot/names_outside_parts.h"
#include "snapshot/view_parts.h"

uint32_t books_fingerprint(void)
{
    return BOOKS_FINGERPRINT;
}

/* A process that was stopped while it recycled a context stays like that, so the wait is not for long. */
static bool wait_outside(unsigned tries)
{
    (void)tries;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return false;
}

static void end_wait_outside(void)
{
}

static const struct view_reader outside_reader = {
    .bytes = outside_bytes, .begin = outside_begin, .chunk = outside_chunk, .moved = outside_moved, .end = outside_end,
    .site = outside_find_site, .frames = outside_frames, .codes = outside_codes,
    .ticks = outside_ticks, .scale = outside_scale, .wait = wait_outside, .end_wait = end_wait_outside};

/* Reads again everything that may have changed since the last snapshot. Another program, or another process with the
 * same pid, has its books elsewhere, has other books, or began at another time. */
static int refresh(struct view *view)
{
    struct view_outside *o = view->outside;
    struct books now;
    enum cpu_clock_kind cpu_clock;
    uint8_t times, lifetimes;
    uint64_t start_unix_ns, end_unix_ns = view->space.core ? core_file_unix_ns(view->space.core) : 0;
    const struct piece pieces[] = {{&now, o->books_at, sizeof now},
                                   {&o->clock, space_address(view->books.clock), sizeof o->clock},
                                   {&cpu_clock, space_address(view->books.cpu_clock), sizeof cpu_clock},
                                   {&times, space_address(view->books.times), sizeof times},
                                   {&lifetimes, space_address(view->books.lifetimes), sizeof lifetimes},
                                   {&view->start_ns, space_address(view->books.start_ns), sizeof view->start_ns},
                                   {&start_unix_ns, space_address(view->books.start_unix_ns), sizeof start_unix_ns},
                                   {o->class_bytes, space_address(view->books.class_bytes), sizeof o->class_bytes},
                                   {o->magazine_max, space_address(view->books.magazine_max), sizeof o->magazine_max}};
    int error = space_copy(&view->space, pieces, 1);
    if (!error && memcmp(&now, &view->books, sizeof now) != 0)
        return -ENOENT;
    if (!error)
        error = space_copy(&view->space, pieces + 1, sizeof pieces / sizeof pieces[0] - 1);
    if (error)
        return error == -EFAULT ? -ENOENT : error;
    if (o->start_ticks && o->clock.start_ticks != o->start_ticks)
        return -ENOENT;
    o->start_ticks = o->clock.start_ticks;
    magazine_find_bottoms(&o->magazine_bottoms, o->magazine_max);
    view->core_age_ns = end_unix_ns > start_unix_ns ? end_unix_ns - start_unix_ns : 0;
    view->times = times;
    view->lifetimes = lifetimes;
    view->cpu_times = cpu_clock != CPU_CLOCK_NONE;
    view->cpu_parts = cpu_clock == CPU_CLOCK_RUSAGE;
    return 0;
}

/* What a core lacks seems to be damaged. */
static int explain_core(const struct core_file *core, int error)
{
    if (error && core && core_file_is_incomplete(core))
        return -ENOSPC; /* what had no room reads as zeros, and so the rest makes no sense */
    return (error == -EBADMSG || error == -ENOENT) && core && core_file_lacks_state(core) ? -EREMOTE : error;
}

/* Returns why there was no memory at an address, or something that makes no sense: the process has ended or has executed another
 * program, its books are damaged, or a file had no room for them. */
static int explain(struct view *view, int error)
{
    if (error != -EFAULT && error != -EBADMSG)
        return error;
    int now = error == -EFAULT ? refresh(view) : 0;
    return explain_core(view->space.core, now ? now : -EBADMSG);
}

static int open_space(struct view **view, struct space space, pid_t pid)
{
    struct view *v = meta_map(sizeof *v);
    struct view_outside *o = meta_map(sizeof *o);
    int error = v && o ? 0 : -ENOMEM;
    if (!error) {
        *v = (struct view){.reader = &outside_reader, .space = space, .pid = (uint32_t)pid, .outside = o};
        error = view_find_books(&v->space, &v->books, &o->books_at);
    }
    if (!error)
        error = refresh(v);
    if (!error) {
        *view = v;
        return 0;
    }
    if (v)
        space_close(&v->space);
    meta_unmap(v, sizeof *v);
    meta_unmap(o, sizeof *o);
    return error == -EFAULT ? -EBADMSG : error;
}

int view_open(struct view **view, pid_t pid)
{
    const struct space space = {.pid = pid, .by_file = pid == getpid()};
    return pid <= 0 ? -ESRCH : open_space(view, space, pid);
}

int view_open_core(struct view **view, const char *path)
{
    struct core_file *core;
    int error = core_file_open(&core, path);
    if (error)
        return error;
    error = explain_core(core, open_space(view, (struct space){.copy = core_file_copy, .core = core}, core_file_pid(core)));
    if (error)
        core_file_close(core);
    return error;
}

bool view_is_incomplete(const struct view *view)
{
    return view->space.core && core_file_is_incomplete(view->space.core);
}

pid_t view_pid(const struct view *view)
{
    return (pid_t)view->pid;
}

/* The snapshot is of the moment when the core was written. */
static void set_program(const struct view *view, struct snapshot *s)
{
    s->program = core_file_program(view->space.core);
    s->code_maps = core_file_maps(view->space.core);
    s->time_unix_ns = core_file_unix_ns(view->space.core);
    s->start_unix_ns = s->time_unix_ns - view->core_age_ns;
}

struct snapshot *view_snapshot(struct view *view, struct snapshot *old)
{
    int error = refresh(view);
    names_outside_forget_threads(view->outside);
    if (!error)
        error = explain(view, view_take(view, &old));
    if (!error && view->space.core)
        set_program(view, old);
    else if (!error)
        old->resident_bytes = process_resident_bytes((pid_t)view->pid);
    errno = -error;
    return error ? NULL : old;
}

int view_read_events(struct view *view, struct event_reader *r, struct event_sink *sink)
{
    int error = refresh(view);
    const struct event_source from = {.space = &view->space, .rings_at = space_address(view->books.events),
                                      .start_ticks = view->outside->clock.start_ticks, .now_ticks = outside_ticks(view),
                                      .scale = outside_scale(view)};
    return error ? error : explain(view, event_reader_read(r, &from, sink));
}

void view_close(struct view *view)
{
    if (!view)
        return;
    names_outside_forget_threads(view->outside);
    outside_free(view->outside);
    meta_unmap(view->outside, sizeof *view->outside);
    view_forget(view);
    space_close(&view->space);
    core_file_close(view->space.core);
    meta_unmap(view, sizeof *view);
}

const char *view_error_text(int error)
{
    switch (error < 0 ? -error : error) {
    case ESRCH:
        return "there is no such process";
    case EPERM:
        return "permission denied: only its user or root can read a process, and kernel.yama.ptrace_scope must allow it";
    case ENOENT:
        return "there is no jespan in this process; start it with 'jespan run'";
    case EAGAIN:
        return "this process has not allocated yet; try again";
    case EPROTONOSUPPORT:
        return "this process has another version of jespan than this command";
    case ENOEXEC:
        return "it is no core of a 64-bit process of this machine";
    case ENODATA:
        return "the core is cut off; is there a limit on its size (ulimit -c)?";
    case EBADMSG:
        return "the books that jespan keeps in this process are damaged";
    case EREMOTE:
        return "the figures were in a state file, which the core does not have: read the state file (the key state_file)";
    case ENOSPC:
        return "this state file had no room for all figures, and what it has is too little to be read";
    case ENOSYS:
        return "/proc has no entry for it: /proc is not mounted, or belongs to another PID namespace";
    case E2BIG:
        return "there are too many threads and contexts: more pairs of them than can be counted";
    case EROFS:
        return "/proc is mounted read-only, so nothing can be changed in a process";
    case ENOMEM:
        return "out of memory";
    default:
        return strerror(error < 0 ? -error : error);
    }
}
