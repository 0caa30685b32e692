/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads /proc/PID/smaps and /proc/PID/pagemap. */
#include "snapshot/view_mappings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/descriptor.h"
#include "base/process_stat.h"

#define PAGE_BYTES 4096u
#define PRESENT (UINT64_C(1) << 63)
#define EXCLUSIVE (UINT64_C(1) << 56)
#define ENTRIES_AT_ONCE 4096

static int add(struct mappings *m, const struct mapping *mapping)
{
    if (array_reserve(&m->items, &m->room, m->n + 1, sizeof *m->items))
        return -ENOMEM;
    m->items[m->n++] = *mapping;
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A file with code is a program or a library; so are its other mappings, which lie beside it. */
static enum mapping_kind kind_of(const char *path, const char *permissions)
{
    if (begins(path, "[stack"))
        return MAPPING_STACK;
    if (permissions[3] == 's' || begins(path, "/dev/shm/") || begins(path, "/memfd:") || begins(path, "/SYSV") || begins(path, "/dev/zero"))
        return MAPPING_SHARED;
    if (begins(path, "[v")) /* vdso, vvar, vsyscall */
        return MAPPING_CODE;
    if (path[0] == '/')
        return strstr(path, ".so") || permissions[2] == 'x' ? MAPPING_CODE : MAPPING_FILE;
    return MAPPING_ANONYMOUS;
}

/* "55d0-55d1 r--p 00000000 08:01 1234   /usr/bin/x". A line of a field has no '-' in its first word. */
static bool read_heading(const char *line, struct mapping *mapping, char last_code[256])
{
    char permissions[8] = "", path[256] = "";
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %255[^\n]", &mapping->start, &mapping->end, permissions, path);
    if (n < 3)
        return false;
    mapping->kind = kind_of(path, permissions);
    mapping->has_no_file = mapping->kind == MAPPING_ANONYMOUS;
    mapping->resident_bytes = mapping->swapped_bytes = 0;
    mapping->shared_pages = mapping->zero_pages = mapping->shared_seen = 0;
    if (mapping->kind == MAPPING_FILE && strcmp(path, last_code) == 0)
        mapping->kind = MAPPING_CODE;
    if (mapping->kind == MAPPING_CODE)
        snprintf(last_code, 256, "%s", path);
    return true;
}

/* Behind the data of a library lie its variables that begin as 0. The heap may lie there too, by chance. */
static bool follows_code(const struct mappings *m, uint64_t start)
{
    const struct mapping *before = m->n == 0 ? NULL : &m->items[m->n - 1];
    return before && before->kind == MAPPING_CODE && !before->has_no_file && before->end == start;
}

static int read_smaps(struct mappings *m, FILE *smaps, const char *program)
{
    char *line = NULL, last_code[256];
    size_t room = 0;
    int error = 0;
    struct mapping mapping;
    snprintf(last_code, sizeof last_code, "%s", program);
    while (!error && getline(&line, &room, smaps) > 0) {
        uint64_t kib;
        if (read_heading(line, &mapping, last_code)) {
            if (mapping.has_no_file && follows_code(m, mapping.start))
                mapping.kind = MAPPING_CODE;
            error = add(m, &mapping);
        }
        else if (m->n > 0 && sscanf(line, "Rss: %" SCNu64, &kib) == 1)
            m->items[m->n - 1].resident_bytes = kib * 1024;
        else if (m->n > 0 && sscanf(line, "Swap: %" SCNu64, &kib) == 1)
            m->items[m->n - 1].swapped_bytes = kib * 1024;
    }
    if (!error && ferror(smaps))
        error = -errno;
    free(line);
    return error;
}

/* Like fopen(3) for reading, and like opendir(3). In the program itself, descriptors are above 2 (descriptor.h). */
static FILE *open_file(const char *path)
{
    int fd = descriptor_open(path, O_RDONLY, 0);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static DIR *open_directory(const char *path)
{
    int fd = descriptor_open(path, O_RDONLY | O_DIRECTORY, 0);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !directory)
        close(fd);
    return directory;
}

/* The stack pointer of a thread that waits in a system call: the last but one number of its file `syscall`. */
static uint64_t stack_pointer(pid_t pid, const char *thread)
{
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/%d/task/%s/syscall", (int)pid, thread);
    FILE *file = open_file(path);
    char *text = file ? fgets(line, sizeof line, file) : NULL;
    if (file)
        fclose(file);
    char *last = text ? strrchr(line, ' ') : NULL;
    if (!last)
        return 0;
    *last = '\0';
    char *before = strrchr(line, ' ');
    return before ? strtoull(before + 1, NULL, 0) : 0;
}

static void mark_stacks(struct mappings *m, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = open_directory(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        uint64_t at = entry->d_name[0] == '.' ? 0 : stack_pointer(pid, entry->d_name);
        for (size_t i = 0; at && i < m->n; i++)
            if (at >= m->items[i].start && at < m->items[i].end && m->items[i].kind == MAPPING_ANONYMOUS)
                m->items[i].kind = MAPPING_STACK;
    }
    if (tasks)
        closedir(tasks);
}

int mappings_read(struct mappings *m, pid_t pid)
{
    char path[PROCESS_PATH_BYTES], program[256] = "";
    *m = (struct mappings){.pagemap = -1};
    if (readlink(process_path(path, pid, "exe"), program, sizeof program - 1) < 0)
        program[0] = '\0';
    m->pagemap = descriptor_open(process_path(path, pid, "pagemap"), O_RDONLY, 0);
    if (m->pagemap < 0)
        return -errno;
    FILE *smaps = open_file(process_path(path, pid, "smaps"));
    if (!smaps)
        return -errno;
    int error = read_smaps(m, smaps, program);
    fclose(smaps);
    if (!error)
        mark_stacks(m, pid);
    return error;
}

void mappings_free(struct mappings *m)
{
    free(m->items);
    if (m->pagemap >= 0)
        close(m->pagemap);
}

/* ---- Pages ---- */

static ssize_t read_entries(const struct mappings *m, uint64_t page, uint64_t n, uint64_t entries[ENTRIES_AT_ONCE])
{
    ssize_t bytes = pread(m->pagemap, entries, n * sizeof *entries, (off_t)(page * sizeof *entries));
    if (bytes < 0)
        return -errno;
    memset((char *)entries + bytes, 0, n * sizeof *entries - (size_t)bytes);
    return bytes;
}

/* The page is present, and perhaps also elsewhere: it is a zero page, or fork() shares it with another process. */
static bool is_shared(uint64_t entry)
{
    return (entry & (PRESENT | EXCLUSIVE)) == PRESENT;
}

int mappings_find_zeroes(const struct mappings *m, struct mapping *of)
{
    static uint64_t entries[ENTRIES_AT_ONCE];
    uint64_t present = 0, counted = of->resident_bytes / PAGE_BYTES;
    of->shared_pages = of->zero_pages = 0;
    for (uint64_t page = of->start / PAGE_BYTES, end = of->end / PAGE_BYTES, now; page < end; page += now) {
        now = end - page < ENTRIES_AT_ONCE ? end - page : ENTRIES_AT_ONCE;
        ssize_t bytes = read_entries(m, page, now, entries);
        if (bytes < 0)
            return (int)bytes;
        for (uint64_t i = 0; i < now; i++) {
            present += (entries[i] & PRESENT) != 0;
            of->shared_pages += is_shared(entries[i]);
        }
    }
    of->zero_pages = present > counted ? present - counted : 0;
    of->zero_pages = of->zero_pages < of->shared_pages ? of->zero_pages : of->shared_pages;
    return 0;
}

/* Whether the next shared page of the mapping is a zero page. They are taken evenly. */
static bool is_zero(struct mapping *of)
{
    uint64_t next = ++of->shared_seen;
    return of->shared_pages > 0 && next * of->zero_pages / of->shared_pages > (next - 1) * of->zero_pages / of->shared_pages;
}

int mappings_resident(const struct mappings *m, struct mapping *of, uint64_t start, uint64_t end, bool *resident)
{
    static uint64_t entries[ENTRIES_AT_ONCE];
    uint64_t n = (end - start) / PAGE_BYTES;
    of->shared_seen = start == of->start ? 0 : of->shared_seen;
    for (uint64_t i = 0, now; i < n; i += now) {
        now = n - i < ENTRIES_AT_ONCE ? n - i : ENTRIES_AT_ONCE;
        ssize_t bytes = read_entries(m, start / PAGE_BYTES + i, now, entries);
        if (bytes < 0)
            return (int)bytes;
        for (uint64_t k = 0; k < now; k++)
            resident[i + k] = (entries[k] & PRESENT) && !(is_shared(entries[k]) && is_zero(of));
    }
    return 0;
}
