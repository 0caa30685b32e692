/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds on this process's memory, and how much is used. */
#include "base/memory_bounds.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define UNBOUNDED ((uint64_t)1 << 60) /* cgroup v1 shows "none" as a little below 2^63 */

static uint64_t read_number(const struct bounds *b, const char *directory, const char *file)
{
    return text_number(file_text(b->root, directory, file));
}

/* ---- Cgroups ---- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

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
    size_t point_bytes = cgroup_find(b->root, v2, directory);
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

static uint64_t resource(int which)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)which, &limit) || limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
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
    found.cgroup2[0] = '\0';
    found.n = 0;
    find_cgroups(&found, true);
    find_cgroups(&found, false);
    if (!found.n)
        add(&found, BOUND_MACHINE, machine_bytes(b), "");
    add(&found, BOUND_ADDRESSES, resource(RLIMIT_AS), "");
    add(&found, BOUND_DATA, resource(RLIMIT_DATA), "");
    strcpy(b->cgroup2, found.cgroup2);
    if (is_same(&found, b))
        return false;
    bounds_close(b);
    *b = found;
    return true;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
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
    return less(used, text_value(text, v2 ? "inactive_file " : "total_inactive_file "));
}

/* statm counts in pages: field 1 is all, field 6 those that are private and writable. */
static uint64_t used_of_process(const struct bounds *b, struct bound *bound)
{
    const char *text = procfile_text(&bound->files[0], b->root, "/proc/self", "statm");
    size_t n;
    if (!text)
        return UINT64_MAX;
    return text_number(bound->kind == BOUND_DATA ? text_field(text, 6, &n) : text) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t used_of_machine(const struct bounds *b, struct bound *bound)
{
    const char *text = procfile_text(&bound->files[0], b->root, "/proc", "meminfo");
    return text ? less(bound->bytes, text_value(text, "MemAvailable:") * 1024) : UINT64_MAX;
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
