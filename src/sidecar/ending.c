/* SPDX-License-Identifier: BSD-2-Clause */
/* How another process ended.
 *
 * Linux 6.15 tells the status to everyone who has a pidfd. Before that, proc(5) shows it until the parent has waited
 * for the process, which may be at once. The OOM killer counts its victims for each cgroup. */
#include "sidecar/ending.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/process_stat.h"
#include "snapshot/row_path.h"

#define TEXT_BYTES 1024
#define TRIES 20
#define PAUSE_NS 1000000

/* struct pidfd_info of linux/pidfd.h, which headers of older kernels do not have. */
struct info {
    uint64_t mask, cgroup_id;
    uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
#define GET_INFO _IOWR(0xFF, 11, struct info)
#define INFO_EXIT (UINT64_C(1) << 3)

/* ---- Victims of the OOM killer ---- */

/* The number after `name` and a space, at the beginning of a line. */
static uint64_t number_after(const char *text, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, bytes) == 0 && line[bytes] == ' ')
            return strtoull(line + bytes, NULL, 10);
    }
    return 0;
}

static uint64_t read_kills(int fd)
{
    static char text[65536]; /* /proc/vmstat has some 5,000 */
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return number_after(text, "oom_kill");
}

/* Opens a file of a cgroup. `group` is its path in a line of /proc/PID/cgroup; NULL: it has none. */
static int open_in_group(const char *mount, const char *group, const char *file)
{
    char path[2 * TEXT_BYTES];
    if (!group)
        return -1;
    snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)strcspn(group, "\n"), group, file);
    return descriptor_open(path, O_RDONLY, 0);
}

/* The path behind `before`, which ends where the path begins. */
static const char *group_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    return at ? at + strlen(before) : NULL;
}

/* The process's own cgroup of version 2 or 1, else the whole machine. Files are asked first that do not count what happens in
 * cgroups below (cgroup-v2.rst, memory.rst of Linux). A file that is open can be read when its cgroup is gone from the
 * directory. */
static int open_kills(pid_t pid)
{
    char path[40], text[TEXT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *group = group_after(text, "0::");
    fd = open_in_group("/sys/fs/cgroup", group, "memory.events.local");
    if (fd < 0)
        fd = open_in_group("/sys/fs/cgroup", group, "memory.events");
    if (fd < 0)
        fd = open_in_group("/sys/fs/cgroup/memory", group_after(text, ":memory:"), "memory.oom_control");
    return fd >= 0 ? fd : descriptor_open("/proc/vmstat", O_RDONLY, 0);
}

void ending_watch(struct ending_watch *w, pid_t pid, int pidfd)
{
    *w = (struct ending_watch){.pid = pid, .pidfd = pidfd, .kills_fd = open_kills(pid)};
    w->kills = w->later_kills = read_kills(w->kills_fd);
}

void ending_look(struct ending_watch *w, uint64_t now_ns)
{
    if (now_ns < w->next_look_ns)
        return;
    w->next_look_ns = now_ns + ENDING_LOOK_EVERY_NS;
    w->kills = w->later_kills;
    w->later_kills = read_kills(w->kills_fd);
}

void ending_forget(struct ending_watch *w)
{
    if (w->kills_fd >= 0)
        close(w->kills_fd);
    w->kills_fd = -1;
}

/* ---- The status ---- */

/* *later: the system will tell it as soon as the parent has waited for the process, which it did while the system looked where the
 * error is ESRCH. */
static bool ask_pidfd(int pidfd, int *status, bool *later)
{
    struct info info = {.mask = INFO_EXIT};
    bool answers = ioctl(pidfd, GET_INFO, &info) == 0, tells = answers && info.mask & INFO_EXIT;
    *later = answers ? !tells : errno == ESRCH;
    *status = info.exit_code;
    return tells;
}

/* Where this process has not the right to know, the system says 0. It lets read where the file of the program is with the same right. */
static bool may_ask(pid_t pid)
{
    char path[40], first;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return readlink(path, &first, 1) >= 0 || errno == ENOENT; /* a process that has ended has none */
}

/* A process is a zombie (Z), then dead (X) while its parent takes it away. */
static bool ask_proc(pid_t pid, int *status)
{
    struct process_stat stat;
    char state = may_ask(pid) && process_stat_read(&stat, pid) ? process_stat_state(&stat) : '\0';
    const char *exit_code = state == 'Z' || state == 'X' ? process_stat_text(&stat, 52) : NULL;
    if (exit_code)
        *status = atoi(exit_code);
    return exit_code;
}

struct ending ending_of(const struct ending_watch *w)
{
    int status;
    bool later = true;
    struct ending e = {0};
    for (int tries = 0; !e.is_known && later && tries < TRIES; tries++) { /* while the parent waits, neither of them tells it */
        if (tries)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        e.is_known = ask_pidfd(w->pidfd, &status, &later) || ask_proc(w->pid, &status);
    }
    if (!e.is_known)
        return e;
    e.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    e.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    e.by_oom_killer = e.signal == SIGKILL && read_kills(w->kills_fd) > w->kills;
    return e;
}

const char *ending_text(char text[ENDING_TEXT_BYTES], const struct ending *e)
{
    if (!e->is_known)
        return strcpy(text, "ended");
    if (e->by_oom_killer)
        return strcpy(text, "was killed by the OOM killer");
    snprintf(text, ENDING_TEXT_BYTES, e->signal ? "was killed by signal %d" : "ended with status %d",
             e->signal ? e->signal : e->status);
    return text;
}

/* ---- The line at the end ---- */

const char *line_size(char text[LINE_SIZE_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double size = (double)bytes;
    unsigned unit = 0;
    for (; size >= 1023.95 && unit < sizeof units / sizeof *units - 1; unit++)
        size /= 1024;
    snprintf(text, LINE_SIZE_BYTES, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

static uint64_t bytes_of(const struct snapshot_row *row, bool at_peak)
{
    return at_peak ? row->peaks.at_peak_bytes : totals_inuse_bytes(&row->totals);
}

void line_find_holder(struct line_holder *h, const struct snapshot *s, bool at_peak)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < s->n_rows; i++)
        if (bytes_of(&s->rows[i], at_peak) > bytes_of(&s->rows[most], at_peak))
            most = i;
    *h = (struct line_holder){.all_bytes = at_peak ? snapshot_peak_bytes(s) : totals_inuse_bytes(&s->all), .path = ""};
    if (s->n_rows == 0)
        return;
    h->bytes = bytes_of(&s->rows[most], at_peak);
    row_path(h->path, sizeof h->path, s, most);
}

void line_name(FILE *to, const char *name)
{
    for (; *name; name++)
        fputc((unsigned char)*name < ' ' || *name == 127 ? '?' : *name, to);
}

void line_path(FILE *to, const char *path)
{
    bool is_odd = false, is_plain = true;
    for (const char *at = path; *at; at++) {
        is_odd |= (unsigned char)*at < ' ' || *at == 127;
        is_plain &= ((unsigned char)*at >= 128 || isalnum((unsigned char)*at) || strchr("/._-+,:@%=", *at));
    }
    fputs(is_odd ? "$'" : is_plain ? "" : "'", to);
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            fprintf(to, "\\%03o", (unsigned)*at);
        else if (*at == '\'' && !is_odd)
            fputs("'\\''", to);
        else
            fprintf(to, "%s%c", is_odd && (*at == '\'' || *at == '\\') ? "\\" : "", *at);
    fputs(is_odd || !is_plain ? "'" : "", to);
}
