/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports for another process until it ends: one loop that waits for the next reading, the next dump, or an end. */
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
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/die.h"
#include "conf/conf.h"
#include "report/dump_dir.h"
#include "report/dump_series.h"
#include "report/module.h"
#include "sidecar/ending.h"
#include "sidecar/line.h"
#include "sidecar/modules.h"
#include "sidecar/page.h"
#include "sidecar/readings.h"
#include "snapshot/view.h"

#define NS_PER_MS UINT64_C(1000000)
#define READ_EVERY_NS (1000 * NS_PER_MS) /* how old the figures of a killed program are, at most */
#define FIRST_PAUSE_NS (2 * NS_PER_MS)   /* before the first attempts, and before the first readings */
#define NAME_BYTES 32
#define PATH_BYTES 4096

/* The process, and the program that it executes now. */
struct served {
    pid_t pid;
    int pidfd;
    struct ending_watch watch;
    struct sidecar_slot *slot; /* NULL: the process cannot ask */
    struct dump_series series;
    const struct exporter *exporter; /* NULL: it is missing */
    /* The program. All zero until its books are found. */
    struct readings *readings; /* NULL: not found */
    char name[NAME_BYTES];
    uint64_t found_ns, next_read_ns, pause_ns, next_dump_ns;
    struct line_holder peak, last;
    bool has_said_goodbye; /* its last dump is written */
    uint64_t n_dumps;
    char last_dump[PATH_BYTES]; /* "": none */
};

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Dumps ---- */

/* The snapshot is shown with the note. */
static void write_dump(struct served *p, const struct snapshot *s, enum dump_reason reason, const char *note)
{
    struct snapshot shown = *s;
    shown.note = note;
    struct dump_source from = {.exporter = p->exporter, .snapshot = &shown, .error = p->exporter ? 0 : -ENOPKG,
                               .urgent = note != NULL};
    uint64_t last = p->series.last;
    dump_series_write_next(&p->series, &from, reason);
    if (p->series.last == last)
        return;
    p->n_dumps++;
    dump_series_last_path(&p->series, reason, p->last_dump, sizeof p->last_dump);
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
    return (now_ns() - p->found_ns) / NS_PER_MS >= conf.dump_at_exit_min_ms;
}

static bool is_chosen(const struct served *p)
{
    return conf.dump_at_exit_pid == (uint64_t)p->pid;
}

static bool wants_last(const struct served *p, const struct ending *e)
{
    return conf.dump_dir[0] && (conf.dump_at_exit || (e && e->signal)) && (has_lived(p) || (e && is_chosen(p)));
}

/* `e` is NULL if the process has executed another program, or the sidecar was told to end. */
static void write_last(struct served *p, const struct ending *e)
{
    if (p->has_said_goodbye)
        return;
    char note[160], how[ENDING_TEXT_BYTES];
    uint64_t age_ns;
    struct snapshot *s = wants_last(p, e) ? readings_last(p->readings, &age_ns) : NULL;
    if (!s)
        return;
    snprintf(note, sizeof note, "read %llu ms before the process %s", (unsigned long long)(age_ns / NS_PER_MS),
             e ? ending_text(how, e) : "was left");
    write_dump(p, s, e && e->by_oom_killer ? DUMP_OOM : e && e->signal ? DUMP_KILLED : DUMP_N_REASONS, note);
    readings_give_back(p->readings, s);
}

/* ---- The program ---- */

static void read_name(char name[NAME_BYTES], pid_t pid)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, name, NAME_BYTES - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static void begin_program(struct served *p)
{
    read_name(p->name, p->pid);
    p->found_ns = now_ns();
    p->pause_ns = FIRST_PAUSE_NS;
    p->next_read_ns = p->found_ns;
    p->next_dump_ns = next_dump_ns();
    modules_start(p->readings, p->pid, p->name);
}

/* Readings may stay in use by a service that did not end in time. Their memory is then lost. */
static void end_program(struct served *p, const struct ending *e)
{
    if (!p->readings)
        return;
    write_last(p, e);
    modules_stop(now_ns() + conf.shutdown_timeout_ms * NS_PER_MS);
    readings_close(p->readings);
    p->readings = NULL;
}

/* The pause doubles up to a second, so a program is found soon after its start, and a short one is read. */
static void pause_longer(struct served *p)
{
    p->next_read_ns = now_ns() + p->pause_ns;
    p->pause_ns = earlier(2 * p->pause_ns, READ_EVERY_NS);
}

static int find_program(struct served *p)
{
    const struct exporter *identifier = p->exporter && p->exporter->identify ? p->exporter : module_find("pprof");
    int error = readings_open(&p->readings, p->pid, identifier);
    if (!error)
        begin_program(p);
    else
        pause_longer(p);
    return error;
}

/* It has executed another program. */
static void leave_program(struct served *p)
{
    end_program(p, NULL);
    p->pause_ns = FIRST_PAUSE_NS;
    p->next_read_ns = now_ns();
}

static void note_figures(struct served *p, const struct snapshot *s)
{
    line_find_holder(&p->last, s);
    if (p->last.all_bytes >= p->peak.all_bytes)
        p->peak = p->last;
}

static void read_program(struct served *p)
{
    bool is_dump_due = now_ns() >= p->next_dump_ns;
    struct snapshot *s = readings_next(p->readings, NULL);
    if (s)
        note_figures(p, s);
    if (readings_error(p->readings) == -ENOENT) {
        readings_give_back(p->readings, s);
        leave_program(p);
        return;
    }
    if (s && is_dump_due)
        write_dump(p, s, DUMP_N_REASONS, NULL);
    if (is_dump_due)
        p->next_dump_ns = next_dump_ns();
    readings_give_back(p->readings, s);
    pause_longer(p);
}

/* ---- The line at the end ---- */

static void say_holder(FILE *to, const char *when, const struct line_holder *h)
{
    char all[LINE_SIZE_BYTES], most[LINE_SIZE_BYTES];
    fprintf(to, "; %s %s in use, most of it by %s (%s)", when, line_size(all, h->all_bytes), h->path, line_size(most, h->bytes));
}

/* One system call writes it, so that it is one line among the output of others. */
static void say_end(const struct served *p, const struct ending *e)
{
    char *text = NULL, how[ENDING_TEXT_BYTES];
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return;
    fprintf(to, "jespan: %s (process %d) %s", p->name, (int)p->pid, ending_text(how, e));
    if (p->peak.all_bytes > 0) {
        say_holder(to, "at its peak", &p->peak);
        say_holder(to, "at last", &p->last);
    }
    if (p->last_dump[0])
        fprintf(to, "; %llu dump%s in %s; next: jespan report %s", (unsigned long long)p->n_dumps, p->n_dumps == 1 ? " is" : "s are",
                conf.dump_dir, p->last_dump);
    fputc('\n', to);
    if (fclose(to) == 0 && write(STDERR_FILENO, text, bytes) < 0)
        errno = 0; /* nobody reads it */
    free(text);
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

enum { PROCESS, SIGNALS, BELL, N_FDS };

/* Waits until a time, or until a process asks. Returns true at the end of the process, or of the sidecar. */
static bool wait_until(uint64_t until_ns, struct pollfd fds[N_FDS])
{
    uint64_t now = now_ns(), ns = until_ns > now ? until_ns - now : 0;
    const struct timespec wait = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    int n = ppoll(fds, N_FDS, &wait, NULL);
    page_hush();
    return n > 0 && (fds[PROCESS].revents || fds[SIGNALS].revents);
}

/* The process waits. It may have executed its program since the last reading. */
static struct snapshot *read_waiting(struct served *p)
{
    struct snapshot *s = p->readings ? readings_next(p->readings, NULL) : NULL;
    if (p->readings && readings_error(p->readings)) {
        readings_give_back(p->readings, s);
        leave_program(p);
    }
    if (!p->readings && find_program(p) == 0)
        s = readings_next(p->readings, NULL);
    return p->readings ? s : NULL;
}

static void say_goodbye(struct served *p)
{
    struct snapshot *s = read_waiting(p);
    page_has_read(p->slot);
    if (s) {
        note_figures(p, s);
        if (conf.dump_dir[0] && conf.dump_at_exit && (has_lived(p) || is_chosen(p)))
            write_dump(p, s, DUMP_N_REASONS, "read at the end of the process");
        readings_give_back(p->readings, s);
        modules_stop(now_ns() + conf.shutdown_timeout_ms * NS_PER_MS);
    }
    p->has_said_goodbye = true;
    page_has_delivered(p->slot);
}

static void serve(struct served *p, int signals, int rings, bool quiet)
{
    struct pollfd fds[N_FDS] = {{p->pidfd, POLLIN, 0}, {signals, POLLIN, 0}, {rings, POLLIN, 0}};
    for (;;) {
        uint64_t until_ns = p->has_said_goodbye ? UINT64_MAX : earlier(p->next_read_ns, p->readings ? p->next_dump_ns : UINT64_MAX);
        if (wait_until(until_ns, fds))
            break;
        if (p->has_said_goodbye)
            continue;
        if (page_is_asked(p->slot))
            say_goodbye(p);
        else if (p->readings)
            read_program(p);
        else
            find_program(p);
    }
    if (!fds[PROCESS].revents) {
        end_program(p, NULL);
        return;
    }
    struct ending e = ending_of(&p->watch);
    bool was_read = p->name[0] != '\0';
    end_program(p, &e);
    if (was_read && !quiet)
        say_end(p, &e);
}

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

int sidecar_run(const struct sidecar_options *o)
{
    static struct served p; /* paths in it are large */
    p = (struct served){.pid = o->pid, .pidfd = o->pidfd, .series.pid = (uint64_t)o->pid, .pause_ns = FIRST_PAUSE_NS};
    clock_boot();
    survive();
    p.exporter = module_find(conf.dump_format);
    if (p.exporter)
        dump_name_know_suffix(p.exporter->suffix);
    int signals = open_signals(o->is_early), error = signals < 0 ? -errno : 0, rings = o->page >= 0 ? page_open(o->page) : -1;
    p.slot = page_enter(o->pid);
    ending_watch(&p.watch, o->pid, o->pidfd);
    if (o->ready >= 0)
        close(o->ready);
    if (!error && !o->is_early)
        error = find_program(&p);
    if (!error || error == -EAGAIN)
        serve(&p, signals, rings, o->quiet);
    ending_forget(&p.watch);
    if (signals >= 0)
        close(signals);
    return error == -EAGAIN ? 0 : error;
}
