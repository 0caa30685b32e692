/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's figures of this process's mappings. */
#ifndef JESPAN_TESTS_MAPS_H
#define JESPAN_TESTS_MAPS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file's lines, read with no memory of the heap that is looked at. */
struct lines {
    int fd;
    size_t at, end;
    char line[512], read[4096];
};

static inline struct lines lines_of(const char *path)
{
    return (struct lines){.fd = open(path, O_RDONLY | O_CLOEXEC)};
}

static inline int lines_get(struct lines *l)
{
    if (l->at == l->end) {
        ssize_t n = read(l->fd, l->read, sizeof l->read);
        l->at = 0;
        l->end = n > 0 ? (size_t)n : 0;
    }
    return l->end ? l->read[l->at++] : '\n';
}

/* The next one in l->line, without its newline; 0: there is none. */
static inline int lines_next(struct lines *l)
{
    size_t n = 0;
    for (int c; n < sizeof l->line - 1 && (c = lines_get(l)) != '\n';)
        l->line[n++] = (char)c;
    l->line[n] = '\0';
    if (!n)
        close(l->fd);
    return n != 0;
}

/* A number of pages in statm, in bytes: 0: address space; 1: resident memory. */
static inline uint64_t statm_bytes(int index)
{
    struct lines statm = lines_of("/proc/self/statm");
    unsigned long pages[2] = {0, 0};
    if (lines_next(&statm))
        sscanf(statm.line, "%lu %lu", &pages[0], &pages[1]);
    close(statm.fd);
    return pages[index] * (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline uint64_t rss_bytes(void)
{
    return statm_bytes(1);
}

static inline uint64_t address_space_bytes(void)
{
    return statm_bytes(0);
}

/* Whether the mapping of `p` has a flag, two letters of VmFlags in smaps. */
static inline int mapping_has_flag(const void *p, const char *flag)
{
    struct lines smaps = lines_of("/proc/self/smaps");
    char wanted[8];
    unsigned long start, end;
    int inside = 0, found = 0;
    snprintf(wanted, sizeof wanted, " %s ", flag);
    while (lines_next(&smaps)) {
        if (sscanf(smaps.line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)p && (uintptr_t)p < end;
        if (inside && !strncmp(smaps.line, "VmFlags:", 8))
            found = strstr(smaps.line, wanted) != NULL;
    }
    return found;
}

/* Mappings with these rights, as in maps: "---p". */
static inline unsigned mappings_with(const char *rights)
{
    struct lines maps = lines_of("/proc/self/maps");
    char found[8];
    unsigned n = 0;
    while (lines_next(&maps))
        n += sscanf(maps.line, "%*s %7s", found) == 1 && !strcmp(found, rights);
    return n;
}

/* The end of the mapping that `p` is in. */
static inline char *mapping_end(const void *p)
{
    struct lines maps = lines_of("/proc/self/maps");
    unsigned long start, end, found = 0;
    while (lines_next(&maps))
        if (sscanf(maps.line, "%lx-%lx ", &start, &end) == 2 && start <= (uintptr_t)p && (uintptr_t)p < end)
            found = end;
    return (char *)found;
}

#endif
