/* SPDX-License-Identifier: BSD-2-Clause */
/* One process that the sidecar serves. */
#include "sidecar/served.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "base/mailbox.h"
#include "base/number.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "report/dump_dir.h"
#include "report/module.h"
#include "report/unfollowed.h"
#include "sidecar/children.h"
#include "sidecar/event_dumps.h"
#include "sidecar/served_push.h"
#include "sidecar/watched.h"
#include "snapshot/view.h"

#define NS_PER_MS UINT64_C(1000000)
#define READ_EVERY_NS (1000 * NS_PER_MS) /* how old the figures of a killed program are, at most */
#define CHILDREN_EVERY_NS (10000 * NS_PER_MS)
#define FIRST_PAUSE_NS (2 * NS_PER_MS)   /* before the first attempts, and before the first readings */

struct served_dumps served_dumps;
struct served_one served_largest, served_other_malloc;
static const struct exporter *exporter; /* NULL: it is missing */

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void served_boot(void)
{
    exporter = module_find(conf.dump_format);
    if (exporter)
        dump_name_know_suffix(exporter->suffix);
    watched_boot();
    dump_dir_note(conf.dump_dir);
}

/* ---- Dumps ---- */

static void note_dump(struct served *p, enum dump_reason reason)
{
    struct served_dumps *d = &served_dumps;
    d->n++;
    d->processes += p->series.written == 1;
    if (d->last_pid && d->last_pid != p->pid && p->peak.all_bytes <= d->last_peak_bytes)
        return;
    d->last_pid = p->pid;
    d->last_peak_bytes = p->peak.all_bytes;
    dump_series_last_path(&p->series, reason, d->last, sizeof d->last);
}

bool served_write_dump(struct served *p, const struct snapshot *s, enum dump_reason reason, const char *note)
{
    struct snapshot shown = *s;
    shown.note = note;
    struct dump_source from = {.exporter = exporter, .snapshot = &shown, .error = exporter ? 0 : -ENOPKG, .urgent = note != NULL};
    uint64_t last = p->series.last;
    dump_series_write_next(&p->series, &from, reason);
    if (p->series.last != last)
        note_dump(p, reason);
    return p->series.last != last;
}

static bool wants_interval(void)
{
    return conf.dump_dir[0] && conf.dump_interval_s;
}

static uint64_t next_dump_ns(void)
{
    return wants_interval() ? now_ns() + conf.dump_interval_s * 1000 * NS_PER_MS : UINT64_MAX;
}

/* Programs that lived for a moment write none, as scripts start hundreds of them (dump_timer.c). */
static bool has_lived(const struct served *p)
{
    return (now_ns() - p->began_ns) / NS_PER_MS >= conf.dump_at_exit_min_ms;
}

static bool is_chosen(const struct served *p)
{
    return conf.dump_at_exit_pid == (uint64_t)p->pid;
}

/* A shell lives for a moment before it executes a program, whatever the user wants of programs that end. */
static bool wants_last(const struct served *p, const struct ending *e)
{
    bool is_long = now_ns() - p->began_ns >= READ_EVERY_NS, executes = !e && !p->is_left;
    return conf.dump_dir[0] && (conf.dump_at_exit || (e && e->signal)) && (executes ? is_long : has_lived(p) || is_chosen(p));
}

static void note_one(struct served_one *one, const struct served *p)
{
    one->pid = p->pid;
    memcpy(one->name, p->name, sizeof one->name);
    one->peak = p->peak;
}

/* For the line at the end. */
static void note_holders(struct served *p, const struct snapshot *s)
{
    p->was_read = true;
    if (s->resident_bytes > p->most_resident_bytes)
        p->most_resident_bytes = s->resident_bytes;
    line_find_holder(&p->last, s, false);
    if (snapshot_peak_bytes(s) >= p->peak.all_bytes)
        line_find_holder(&p->peak, s, true);
    if (p->peak.all_bytes > served_largest.peak.all_bytes)
        note_one(&served_largest, p);
}

/* Until the program has started and has said so, since the name is looked for in its memory each time. */
static void note_other_malloc(struct served *p)
{
    struct mailbox_answer answer;
    if (served_other_malloc.pid == p->pid)
        served_other_malloc.peak = p->peak;
    if (p->is_malloc_known || readings_get(p->readings, "spans.stats.other_malloc", &answer) != 0)
        return;
    p->is_malloc_known = answer.value || now_ns() - p->began_ns >= READ_EVERY_NS;
    if (answer.value && !served_other_malloc.pid)
        note_one(&served_other_malloc, p);
}

static enum dump_reason reason_of(const struct ending *e)
{
    return e && e->by_oom_killer ? DUMP_OOM : e && e->signal ? DUMP_KILLED : DUMP_N_REASONS;
}

static uint64_t last_resident_bytes(const struct served *p)
{
    uint64_t began_ns;
    struct snapshot *s = p->readings ? readings_last(p->readings, &began_ns) : NULL;
    uint64_t bytes = s ? s->resident_bytes : 0;
    readings_give_back(s);
    return bytes;
}

/* The process keeps its figures in a file. Returns whether it left a dump. */
static bool write_exact(struct served *p, const struct ending *e)
{
    char path[STATE_PATH_BYTES], note[160], how[ENDING_TEXT_BYTES];
    struct view *view;
    if (!conf.state_file[0] || state_file_path(path, conf.state_file, p->pid) || view_open_core(&view, path))
        return false;
    struct snapshot *s = view_pid(view) == p->pid && !view_is_incomplete(view) ? view_snapshot(view, NULL) : NULL;
    if (s) {
        s->time_unix_ns = clock_unix_ns();
        s->resident_bytes = last_resident_bytes(p);
        snprintf(note, sizeof note, "read from the state file after the process %s", ending_text(how, e));
        note_holders(p, s);
        served_write_dump(p, s, reason_of(e), note);
    }
    snapshot_free(s);
    view_close(view);
    return s;
}

/* `e` is NULL if the process has executed another program, or the sidecar was told to end. Where another sidecar reports for it
 * now, the figures are those of `jespan run`, before it became the program. */
static void write_last(struct served *p, const struct ending *e)
{
    char note[160], how[ENDING_TEXT_BYTES];
    if (p->was_read_last || page_is_handed_over(p->pid) || !wants_last(p, e) || (e && write_exact(p, e)))
        return;
    uint64_t began_ns, until_ns = e ? e->by_ns : now_ns();
    struct snapshot *s = readings_last(p->readings, &began_ns);
    if (!s)
        return;
    uint64_t age_ns = until_ns > began_ns ? until_ns - began_ns : 0;
    snprintf(note, sizeof note, "read %llu ms before the process %s", (unsigned long long)((age_ns + NS_PER_MS - 1) / NS_PER_MS),
             e ? ending_text(how, e) : "was left");
    served_write_dump(p, s, reason_of(e), note);
    readings_give_back(s);
}

/* ---- The process ---- */

static void read_name(char name[SERVICE_NAME_BYTES], pid_t pid)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, name, SERVICE_NAME_BYTES - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

struct served *served_new(pid_t pid, int pidfd, bool is_first, bool needs_slot)
{
    struct served *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct served){.pid = pid, .pidfd = pidfd, .is_first = is_first, .needs_slot = needs_slot,
                         .series.pid = (uint64_t)pid, .pause_ns = FIRST_PAUSE_NS};
    ending_watch(&p->watch, pid, pidfd);
    return p;
}

void served_free(struct served *p)
{
    page_empty(p->slot, p->pid);
    ending_forget(&p->watch);
    close(p->pidfd);
    free(p);
}

/* ---- The program ---- */

/* Looks for the slot: the first process takes it some time after it is served. */
static bool is_reported(struct served *p)
{
    if (p->needs_slot && !page_is_of(p->slot, p->pid))
        p->slot = page_find(p->pid);
    return !p->needs_slot || page_is_of(p->slot, p->pid);
}

/* What is said at the end is about the last program that was found. */
static void begin_program(struct served *p, const char name[SERVICE_NAME_BYTES])
{
    if (name[0])
        memcpy(p->name, name, SERVICE_NAME_BYTES);
    p->was_read = p->is_malloc_known = false;
    p->peak = p->last = (struct line_holder){.all_bytes = 0};
    p->most_resident_bytes = 0;
    uint64_t began_ns = page_is_of(p->slot, p->pid) ? load_relaxed(&p->slot->began_ns) : 0;
    p->began_ns = began_ns ? began_ns : now_ns();
    p->pause_ns = FIRST_PAUSE_NS;
    p->next_read_ns = now_ns();
    p->next_dump_ns = next_dump_ns();
    p->next_children_ns = now_ns() + READ_EVERY_NS;
    readings_list(p->readings, p->is_first);
    p->watched = watched_new();
    bool forked = page_is_of(p->slot, p->pid) && load_relaxed(&p->slot->forked);
    p->pushes = p->is_first || forked;
    p->modules = modules_start(p->readings, p->name, forked, p->pushes);
    modules_start_common(p->pid, p->name);
}

static void stop_modules(struct served *p, struct sidecar_slot *slot)
{
    served_push_at_end(p);
    modules_stop(p->modules, now_ns() + conf.shutdown_timeout_ms * NS_PER_MS, slot, p->pid);
    p->modules = NULL;
}

void served_end(struct served *p, const struct ending *e)
{
    bool is_young = !p->began_ns && p->pause_ns < READ_EVERY_NS; /* it was killed before it was first read */
    if (!p->readings && is_young && e && e->signal && conf.dump_dir[0])
        write_exact(p, e);
    if (!p->readings)
        return;
    event_dumps_end(p);
    watched_write_peak(p);
    write_last(p, e);
    watched_free(p->watched);
    p->watched = NULL;
    stop_modules(p, NULL);
    readings_unlist(p->readings);
    readings_release(p->readings);
    p->readings = NULL;
}

/* The pause doubles up to a second, so a program is found soon after its start, and a short one is read. */
static void pause_longer(struct served *p)
{
    p->next_read_ns = now_ns() + p->pause_ns;
    p->pause_ns = lesser(2 * p->pause_ns, watched_interval_ns(READ_EVERY_NS));
}

/* With a short reading_interval_ms, readings of very many contexts take a tenth of the time. A second is always enough. */
static void leave_time(struct served *p, uint64_t took_ns)
{
    uint64_t least_ns = now_ns() + lesser(9 * took_ns, READ_EVERY_NS);
    if (p->next_read_ns < least_ns)
        p->next_read_ns = least_ns;
}

int served_find(struct served *p)
{
    const struct exporter *identifier = exporter && exporter->identify ? exporter : module_find("pprof");
    char name[SERVICE_NAME_BYTES];
    read_name(name, p->pid);
    int error = is_reported(p) ? readings_open(&p->readings, p->pid, name[0] ? name : p->name, identifier) : -EAGAIN;
    if (!error)
        begin_program(p, name);
    else
        pause_longer(p);
    return error;
}

/* It has executed another program. */
static void leave_program(struct served *p)
{
    served_end(p, NULL);
    p->pause_ns = FIRST_PAUSE_NS;
    p->next_read_ns = now_ns();
}

void served_note_figures(struct served *p, struct snapshot *s)
{
    watched_look(p, s);
    note_holders(p, s);
    note_other_malloc(p);
}

/* Once for all processes. */
static void say_unreadable(const struct served *p)
{
    static bool has_said;
    char number[NUMBER_BYTES];
    if (!has_said)
        WARN("process ", number_text(number, (uint64_t)p->pid, 10), " cannot be read any more, as it runs as another user or has other "
             "rights now; what is reported of it stays as it was; it can be read with CAP_SYS_PTRACE");
    has_said = true;
}

static void read_program(struct served *p)
{
    uint64_t began_ns = now_ns();
    bool is_dump_due = began_ns >= p->next_dump_ns;
    struct snapshot *s = readings_next(p->readings);
    if (s) {
        ending_look(&p->watch, began_ns);
        served_note_figures(p, s);
    }
    uint64_t took_ns = now_ns() - began_ns;
    if (readings_error(p->readings) == -ENOENT || !is_reported(p)) {
        readings_give_back(s);
        leave_program(p);
        return;
    }
    if (readings_error(p->readings) == -EPERM)
        say_unreadable(p);
    served_push_if_worth(p, false);
    if (s && is_dump_due)
        served_write_dump(p, s, DUMP_N_REASONS, NULL);
    if (is_dump_due)
        p->next_dump_ns = next_dump_ns();
    readings_give_back(s);
    pause_longer(p);
    leave_time(p, took_ns);
}

/* ---- Children that are not reported for ---- */

/* Once for all processes. */
static void say_unfollowed(pid_t pid)
{
    static bool has_said;
    char number[NUMBER_BYTES];
    pid_t child = has_said || conf_follow_fork_chosen ? 0 : children_unfollowed(pid);
    if (!child)
        return;
    has_said = true;
    WARN("forked processes such as ", number_text(number, (uint64_t)child, 10), FORKED_CHILDREN_TEXT);
}

/* A process without a slot has nobody to follow its children. */
static void look_for_children(struct served *p)
{
    uint64_t now = now_ns();
    if (!p->needs_slot || now < p->next_children_ns)
        return;
    p->next_children_ns = now + CHILDREN_EVERY_NS;
    pid_t outside = children_outside(p->pid);
    page_note_left_out(outside);
    if (!outside)
        say_unfollowed(p->pid);
}

/* ---- The end ---- */

/* It may have begun or executed its program since the last reading. NULL: it cannot be read now. */
static struct snapshot *read_last(struct served *p)
{
    struct snapshot *s = p->readings ? readings_next(p->readings) : NULL;
    if (p->readings && readings_error(p->readings) == -ENOENT) {
        readings_give_back(s);
        leave_program(p);
    }
    if (!p->readings && served_find(p) == 0)
        s = readings_next(p->readings);
    return p->readings ? s : NULL;
}

void served_leave(struct served *p)
{
    struct snapshot *s = read_last(p);
    if (s)
        served_note_figures(p, s);
    readings_give_back(s);
    p->is_left = true;
    served_end(p, NULL);
}

/* A forked child need not wait until all was pushed: with it, neither the sidecar nor the container ends. Calls are named with the help of
 * the process. */
static bool may_leave_early(const struct served *p, const struct snapshot *s)
{
    bool forked = page_is_of(p->slot, p->pid) && load_relaxed(&p->slot->forked);
    return forked && s && s->n_stacks == 0 && modules_may_outlive(p->modules);
}

static void say_goodbye(struct served *p)
{
    bool is_first = load_acquire(&p->slot->state) == SIDECAR_ASKS_FIRST;
    struct snapshot *s = read_last(p);
    bool was_read = s;
    (is_first ? event_dumps_tend : event_dumps_tend_last)(p); /* one may be the reason why the program ends */
    page_tell(p->slot, p->pid, SIDECAR_READ);
    bool leaves_early = may_leave_early(p, s);
    if (s) {
        served_note_figures(p, s);
        watched_write_peak(p);
        if (conf.dump_dir[0] && conf.dump_at_exit && (has_lived(p) || is_chosen(p)))
            served_write_dump(p, s, DUMP_N_REASONS, "read at the end of the process");
        readings_give_back(s);
    }
    if (is_first || leaves_early)
        page_tell(p->slot, p->pid, SIDECAR_DELIVERED);
    if (is_first)
        return;
    p->has_said_goodbye = true;
    p->was_read_last = was_read;
    stop_modules(p, leaves_early ? NULL : p->slot);
}

static uint64_t next_reading_ns(const struct served *p)
{
    return lesser(p->next_read_ns, p->readings ? p->next_dump_ns : UINT64_MAX);
}

void served_tend(struct served *p)
{
    if (p->has_said_goodbye)
        return;
    if (page_is_asked(p->slot, p->pid)) {
        say_goodbye(p);
        return;
    }
    event_dumps_tend(p);
    if (now_ns() < next_reading_ns(p))
        return;
    if (p->readings)
        read_program(p);
    else
        served_find(p);
    if (p->readings)
        look_for_children(p);
}

uint64_t served_next_ns(const struct served *p)
{
    return p->has_said_goodbye ? UINT64_MAX : lesser(next_reading_ns(p), event_dumps_next_ns(p));
}
