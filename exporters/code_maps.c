/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the mappings of a process that have code. */
#include "pprof_parts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "exporter_memory.h"

#define FIRST_TEXT_BYTES ((size_t)64 << 10)
#define MOST_TEXT_BYTES ((size_t)64 << 20)

/* Reads a file of /proc, whose size is not known before. stdio is not used, because it allocates. */
static char *read_text(int fd, const struct exporter_memory *memory)
{
    size_t room = FIRST_TEXT_BYTES, used = 0;
    char *text = exporter_memory_take(memory, 1, room);
    ssize_t n = 0;
    while (text && (n = read(fd, text + used, room - used - 1)) > 0) {
        used += (size_t)n;
        if (room - used > PATH_MAX + 128)
            continue;
        char *more = room < MOST_TEXT_BYTES ? exporter_memory_grow(memory, text, room, 2 * room) : NULL;
        if (!more)
            exporter_memory_give(memory, text);
        text = more;
        room *= 2;
    }
    if (text)
        text[used] = '\0';
    return text;
}

static bool take_line(struct code_map *map, char *line)
{
    char access[5];
    int path_at = 0;
    *map = (struct code_map){.file = "[anon]"};
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &map->start, &map->limit, access, &map->offset,
                   &map->inode, &path_at);
    if (n != 5 || access[2] != 'x')
        return false;
    if (path_at && line[path_at])
        map->file = line + path_at;
    return true;
}

static void cut_deleted(char *line)
{
    static const char deleted[] = " (deleted)";
    size_t bytes = strlen(line), suffix = sizeof deleted - 1;
    if (bytes > suffix && strcmp(line + bytes - suffix, deleted) == 0)
        line[bytes - suffix] = '\0';
}

static uint32_t count_lines(const char *text)
{
    uint32_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static char *read_maps(pid_t pid, const struct exporter_memory *memory)
{
    char path[40];
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    else
        snprintf(path, sizeof path, "/proc/thread-self/maps");
    int fd = descriptor_open(path, O_RDONLY, 0);
    if (fd < 0)
        return NULL;
    char *text = read_text(fd, memory);
    close(fd);
    return text;
}

static char *copy_text(const char *text, const struct exporter_memory *memory)
{
    char *copy = exporter_memory_take(memory, 1, strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

void code_maps_read(struct code_maps *maps, const struct snapshot *snapshot, const struct exporter_memory *memory)
{
    pid_t pid = snapshot->from_outside && !snapshot->code_maps ? (pid_t)snapshot->pid : 0;
    *maps = (struct code_maps){.memory = memory, .pid = pid};
    maps->text = snapshot->code_maps ? copy_text(snapshot->code_maps, memory) : read_maps(pid, memory);
    maps->maps = maps->text ? exporter_memory_take(memory, count_lines(maps->text) + (size_t)1, sizeof *maps->maps) : NULL;
    if (!maps->maps)
        return;
    for (char *line = maps->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cut_deleted(line);
        maps->n += take_line(&maps->maps[maps->n], line);
    }
}

void code_maps_free(struct code_maps *maps)
{
    exporter_memory_give(maps->memory, maps->maps);
    exporter_memory_give(maps->memory, maps->text);
}

struct code_map *code_maps_find(const struct code_maps *maps, uint64_t address)
{
    uint32_t low = 0, high = maps->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (maps->maps[middle].limit <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < maps->n && maps->maps[low].start <= address ? &maps->maps[low] : NULL;
}

/* Another process may have another root directory. */
int code_maps_open(const struct code_maps *maps, const struct code_map *map)
{
    char path[PATH_MAX + 32];
    struct stat file;
    if (map->file[0] != '/')
        return -1;
    if (maps->pid)
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)maps->pid, map->file);
    else
        snprintf(path, sizeof path, "%s", map->file);
    int fd = descriptor_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd >= 0 && (fstat(fd, &file) || !S_ISREG(file.st_mode) || (map->inode && file.st_ino != map->inode))) {
        close(fd);
        return -1;
    }
    return fd;
}
