/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds on a process's memory, and how much is used. */
#include "base/memory_bounds.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/number.h"
#include "base/process_stat.h"

#define UNBOUNDED ((uint64_t)1 << 60) /* cgroup v1 shows "none" as a little below 2^63 */

static uint64_t read_number(const struct bounds *b, const char *directory, const char *file)
{
    return text_number(file_text(b->root, directory, file));
}

/* ---- Cgroups ---- */

static uint64_t bytes_of_cgroup(const struct bounds *b, const char *directory, bool v2)
{
    if (!v2)
        return read_number(b, directory, "memory.limit_in_bytes");
    return lesser(read_number(b, directory, "memory.max"), read_number(b, directory, "memory.high"));
}

static void add(struct bounds *b, enum bound_kind kind, uint64_t bytes, const char *directory)
{
    if (!bytes || bytes >= UNBOUNDED || b->n == BOUNDS_MAX)
        return;
    struct bound *bound = &b->bound[b->n++];
    bound->kind = kind;
    bound->bytes = bytes;
    memset(bound->files, 0, sizeof bound->files);
    strcpy(bound->directory, directory);
}

/* Each cgroup from the process's own up to the mount point bounds it. */
static void find_cgroups(struct bounds *b, bool v2)
{
    char directory[CGROUP_PATH_BYTES];
    size_t point_bytes = cgroup_find(b->root, b->pid, v2, directory);
    if (!point_bytes)
        return;
    if (v2)
        strcpy(b->cgroup2, directory);
    for (;;) {
        add(b, v2 ? BOUND_CGROUP2 : BOUND_CGROUP1, bytes_of_cgroup(b, directory, v2), directory);
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < point_bytes)
            return;
        *slash = '\0';
    }
}

/* ---- All ---- */

static uint64_t resource(const struct bounds *b, int which)
{
    struct rlimit limit;
    return prlimit(b->pid, (__rlimit_resource_t)which, NULL, &limit) || limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
}

static uint64_t machine_bytes(const struct bounds *b)
{
    return text_value(file_text(b->root, "/proc", "meminfo"), "MemTotal:") * 1024;
}

static bool is_same(const struct bounds *a, const struct bounds *b)
{
    for (unsigned i = 0; i < a->n && i < b->n; i++)
        if (a->bound[i].kind != b->bound[i].kind || a->bound[i].bytes != b->bound[i].bytes ||
            strcmp(a->bound[i].directory, b->bound[i].directory) != 0)
            return false;
    return a->n == b->n;
}

bool bounds_find(struct bounds *b)
{
    static struct bounds found;
    found.root = b->root;
    found.pid = b->pid;
    found.cgroup2[0] = '\0';
    found.n = 0;
    find_cgroups(&found, true);
    find_cgroups(&found, false);
    if (!found.n)
        add(&found, BOUND_MACHINE, machine_bytes(b), "");
    add(&found, BOUND_ADDRESSES, resource(b, RLIMIT_AS), "");
    add(&found, BOUND_DATA, resource(b, RLIMIT_DATA), "");
    strcpy(b->cgroup2, found.cgroup2);
    if (is_same(&found, b))
        return false;
    bounds_close(b);
    *b = found;
    return true;
}

/* The kernel gives up file pages that nobody used lately before it kills. Their figure is the most expensive to
 * read. */
static uint64_t used_of_cgroup(const struct bounds *b, struct bound *bound, uint64_t enough)
{
    bool v2 = bound->kind == BOUND_CGROUP2;
    const char *text = procfile_text(&bound->files[0], b->root, bound->directory,
                                      v2 ? "memory.current" : "memory.usage_in_bytes");
    uint64_t used = text_number(text);
    if (used == UINT64_MAX || used < enough)
        return used;
    text = procfile_text(&bound->files[1], b->root, bound->directory, "memory.stat");
    return saturating_sub(used, text_value(text, v2 ? "inactive_file " : "total_inactive_file "));
}

/* /proc/PID/statm counts pages. Field 1 has all, and field 6 the private and writable ones. The file that is open may be of a thread
 * that has ended: then it cannot be read, or has only zeros. */
static uint64_t used_of_process(const struct bounds *b, struct bound *bound)
{
    char path[PROCESS_PATH_BYTES];
    for (int tries = 0; tries < 2; tries++) {
        const char *text = procfile_text(&bound->files[0], b->root, process_path(path, b->pid, ""), "statm");
        size_t n;
        if (text && *text != '0')
            return text_number(bound->kind == BOUND_DATA ? text_field(text, 6, &n) : text) * (uint64_t)sysconf(_SC_PAGESIZE);
        procfile_close(&bound->files[0]);
    }
    return UINT64_MAX;
}

static uint64_t used_of_machine(const struct bounds *b, struct bound *bound)
{
    const char *text = procfile_text(&bound->files[0], b->root, "/proc", "meminfo");
    return text ? saturating_sub(bound->bytes, text_value(text, "MemAvailable:") * 1024) : UINT64_MAX;
}

bool bounds_read(const struct bounds *b, struct bound *bound, uint64_t enough)
{
    switch (bound->kind) {
    case BOUND_CGROUP2:
    case BOUND_CGROUP1:
        bound->used = used_of_cgroup(b, bound, enough);
        break;
    case BOUND_ADDRESSES:
    case BOUND_DATA:
        bound->used = used_of_process(b, bound);
        break;
    case BOUND_MACHINE:
        bound->used = used_of_machine(b, bound);
        break;
    }
    return bound->used != UINT64_MAX;
}

void bounds_close(struct bounds *b)
{
    for (struct bound *bound = b->bound; bound < b->bound + b->n; bound++)
        for (struct procfile *k = bound->files; k < bound->files + 2; k++)
            procfile_close(k);
}

const char *bound_name(const struct bound *bound)
{
    static const char *const names[] = {"the memory cgroup", "the memory cgroup", "the address space (RLIMIT_AS)",
                                        "the data segment (RLIMIT_DATA)", "the machine's memory"};
    return names[bound->kind];
}

/* ---- The memory cgroup of the process ---- */

/* Reads the path of the process's cgroup: "0::PATH" in version 2, "N:…,memory,…:PATH" in version 1. */
static bool find_path(const char *root, pid_t pid, bool v2, char path[FILE_PATH_BYTES])
{
    char process[PROCESS_PATH_BYTES];
    const char *line = file_text(root, process_path(process, pid, ""), "cgroup");
    for (; line && *line; line += strcspn(line, "\n"), line += *line != '\0') {
        const char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
        if (!at)
            return false;
        size_t n = strcspn(at + 1, "\n");
        char list[256];
        snprintf(list, sizeof list, ",%.*s,", (int)(at - names - 1), names + 1);
        if ((v2 ? strcmp(list, ",,") == 0 : strstr(list, ",memory,") != NULL) && n < FILE_PATH_BYTES) {
            memcpy(path, at + 1, n);
            path[n] = '\0';
            return true;
        }
    }
    return false;
}

/* Copies a path of /proc/PID/mountinfo, which writes blanks and backslashes as octal numbers. */
static void unescape(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] == '\\' && i + 3 < bytes) {
            *to++ = (char)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + from[i + 3] - '0');
            i += 3;
        } else {
            *to++ = from[i];
        }
    *to = '\0';
}

/* Whether "memory" is among the options of the file system, which are the last field of a line. */
static bool has_memory_option(const char *type)
{
    char options[256];
    size_t n;
    const char *last = text_field(type, 3, &n);
    snprintf(options, sizeof options, ",%.*s,", (int)n, last);
    return strstr(options, ",memory,") != NULL;
}

/* Finds where cgroups are mounted, and which cgroup is at the top there. */
static bool find_mount(const char *root, bool v2, char top[FILE_PATH_BYTES], char point[FILE_PATH_BYTES])
{
    const char *line = file_text(root, "/proc/thread-self", "mountinfo");
    for (; line && *line; line += strcspn(line, "\n"), line += *line != '\0') {
        const char *type = strstr(line, " - "), *end = strchrnul(line, '\n');
        size_t top_bytes, point_bytes;
        if (!type || type > end || strncmp(type + 3, v2 ? "cgroup2 " : "cgroup ", v2 ? 8 : 7) != 0 ||
            (!v2 && !has_memory_option(type + 3)))
            continue;
        const char *top_at = text_field(line, 4, &top_bytes), *point_at = text_field(line, 5, &point_bytes);
        if (top_bytes >= FILE_PATH_BYTES || point_bytes >= FILE_PATH_BYTES)
            return false;
        unescape(top, top_at, top_bytes);
        unescape(point, point_at, point_bytes);
        return true;
    }
    return false;
}

size_t cgroup_find(const char *root, pid_t pid, bool v2, char directory[CGROUP_PATH_BYTES])
{
    char path[FILE_PATH_BYTES], top[FILE_PATH_BYTES], point[FILE_PATH_BYTES];
    if (!find_path(root, pid, v2, path) || !find_mount(root, v2, top, point))
        return 0;
    size_t n = strcmp(top, "/") ? strlen(top) : 0, point_bytes = strlen(point);
    bool is_below = !strncmp(path, top, n) && (path[n] == '/' || !path[n]) && !strstr(path, "/..");
    if (point_bytes + strlen(path) >= FILE_PATH_BYTES)
        return 0;
    snprintf(directory, CGROUP_PATH_BYTES, "%s%s", point, is_below && strcmp(path, "/") ? path + n : "");
    return point_bytes;
}

/* ---- Pressure ---- */

/* Whether the cgroup has figures of its own. The root cgroup, which has no cgroup.type, shows those of the machine. */
static bool has_pressure(const struct pressure *p, const char *cgroup2)
{
    return *cgroup2 && file_text(p->root, cgroup2, "memory.pressure") && file_text(p->root, cgroup2, "cgroup.type");
}

void pressure_find(struct pressure *p, const char *cgroup2)
{
    p->of_cgroup = has_pressure(p, cgroup2);
    const char *directory = p->of_cgroup ? cgroup2 : "/proc/pressure";
    if (strcmp(directory, p->directory) != 0)
        pressure_close(p);
    strcpy(p->directory, directory);
}

/* Lines are "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" and the same with "full". total is in microseconds. */
static bool read_stalled(struct pressure *p, uint64_t *us)
{
    const char *text = procfile_text(&p->file, p->root, p->directory, p->of_cgroup ? "memory.pressure" : "memory");
    const char *full = text ? strstr(text, "full ") : NULL, *total = full ? strstr(full, " total=") : NULL;
    *us = total ? text_number(total + strlen(" total=")) : UINT64_MAX;
    return *us != UINT64_MAX;
}

unsigned pressure_read(struct pressure *p, uint64_t now_ns)
{
    uint64_t us, before_us = p->stalled_us, ms = (now_ns - p->at_ns) / 1000000;
    bool was_known = p->known;
    p->known = read_stalled(p, &us);
    p->stalled_us = us;
    p->at_ns = now_ns;
    if (!was_known || !p->known || us < before_us || !ms)
        return 0;
    uint64_t percent = (us - before_us) / 10 / ms;
    return percent < 100 ? (unsigned)percent : 100;
}

void pressure_close(struct pressure *p)
{
    procfile_close(&p->file);
    p->known = false;
}

/* ---- The forecast ---- */

#define NS_PER_S 1000000000u
#define SOON_PER_S 5u                       /* 200 ms */
#define FASTEST_FILL ((uint64_t)3 << 30)    /* bytes/s: twice the rate of one processor */
#define FAST_GROWTH ((uint64_t)100 << 20)

static uint64_t growth(const struct pace *p, uint64_t used, uint64_t now_ns)
{
    if (!p->at_ns || used <= p->used || now_ns <= p->at_ns)
        return 0;
    return (uint64_t)((double)(used - p->used) * NS_PER_S / (double)(now_ns - p->at_ns));
}

enum pace_level pace_look(struct pace *p, uint64_t used, uint64_t bound, uint64_t threshold, uint64_t now_ns)
{
    p->rate = growth(p, used, now_ns);
    p->used = used;
    p->at_ns = now_ns;
    if (used < p->calm_below) {
        p->level = PACE_CALM;
        p->calm_below = 0;
    }
    if (used >= threshold)
        return PACE_NOW;
    return used >= bound / 2 && p->rate / SOON_PER_S >= bound - used ? PACE_SOON : PACE_CALM;
}

void pace_acted(struct pace *p, enum pace_level level, uint64_t threshold)
{
    p->level = level;
    p->calm_below = (p->used < threshold ? p->used : threshold) / 8 * 7;
}

uint64_t pace_next_ns(const struct pace *p, uint64_t bound, uint64_t threshold)
{
    if (p->used >= threshold)
        return PACE_SLOW_NS; /* the caller has acted on this level */
    uint64_t ns = (uint64_t)((double)(bound - p->used) * NS_PER_S / (double)FASTEST_FILL);
    if (p->rate) {
        uint64_t there = (uint64_t)((double)(threshold - p->used) * NS_PER_S / (double)p->rate / 4);
        ns = there < ns ? there : ns;
    }
    uint64_t least = p->rate > FAST_GROWTH ? PACE_FASTEST_NS : PACE_FAST_NS;
    return ns < least ? least : ns < PACE_SLOW_NS ? ns : PACE_SLOW_NS;
}
