/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the mappings of a process that have code, and adds those that its table of code knows. */
#include "pprof_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/encode.h"
#include "base/process_stat.h"
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

/* The mapping of a file's first bytes. The others of the file follow it. */
struct image {
    uint64_t start, inode;
};

static bool cut_deleted(char *line)
{
    static const char deleted[] = " (deleted)";
    size_t bytes = strlen(line), suffix = sizeof deleted - 1;
    bool is_deleted = bytes > suffix && strcmp(line + bytes - suffix, deleted) == 0;
    if (is_deleted)
        line[bytes - suffix] = '\0';
    return is_deleted;
}

/* Returns whether the mapping has code. */
static bool take_line(struct code_map *map, struct image *image, char *line)
{
    char access[5];
    int path_at = 0;
    *map = (struct code_map){.file = "[anon]", .is_deleted = cut_deleted(line)};
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &map->start, &map->limit, access, &map->offset,
                   &map->inode, &path_at);
    if (n == 5 && map->offset == 0)
        *image = (struct image){map->start, map->inode};
    if (n != 5 || access[2] != 'x')
        return false;
    map->image = map->inode && map->inode == image->inode ? image->start : 0;
    if (path_at && line[path_at])
        map->file = line + path_at;
    return true;
}

static uint32_t count_lines(const char *text)
{
    uint32_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static int open_in_proc(pid_t pid, const char *what)
{
    char path[PROCESS_PATH_BYTES];
    return descriptor_open(process_path(path, pid, what), O_RDONLY, 0);
}

static char *read_maps(pid_t pid, const struct exporter_memory *memory)
{
    int fd = open_in_proc(pid, "maps");
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

static void add_codes(struct code_maps *maps, const struct snapshot *snapshot)
{
    for (; maps->n_codes < snapshot->n_codes; maps->n_codes++) {
        const struct code *code = &snapshot->codes[maps->n_codes];
        uint64_t moved = code->shown - code->start;
        maps->maps[maps->n + maps->n_codes] =
            (struct code_map){.start = code->parts.start + moved, .limit = code->parts.limit + moved, .offset = code->parts.offset,
                              .file = code->file[0] ? code->file : "[anon]", .code = code};
    }
}

/* ---- Generated code ---- */

/* As perf tells it from other memory. .NET maps its code twice, from a file in memory. */
static bool is_generated(const struct code_map *map)
{
    static const char *const names[] = {"[anon", "/dev/zero", "/memfd:doublemapper"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!map->code && strncmp(map->file, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The number of the process in its own PID namespace, which is the last one in its status. */
static pid_t own_pid(pid_t pid)
{
    static const char field[] = "\nNStgid:";
    char text[2048];
    int fd = pid ? open_in_proc(pid, "status") : -1;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *line = strstr(text, field), *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return pid ? pid : getpid();
    *end = '\0';
    return (pid_t)strtol(strrchr(line, '\t') + 1, NULL, 10);
}

/* Whether the process, or whoever reads it, has written the file since tracking began. Before that, it was another process's. */
static bool is_of_process(const struct code_maps *maps, const struct snapshot *snapshot, const struct stat *file)
{
    char path[PROCESS_PATH_BYTES];
    struct stat process;
    bool is_owner = file->st_uid == geteuid() || (maps->pid && stat(process_path(path, maps->pid, "stat"), &process) == 0 &&
                                                  file->st_uid == process.st_uid);
    return is_owner && (uint64_t)file->st_mtim.tv_sec + 1 >= snapshot->start_unix_ns / 1000000000;
}

static void find_perf_map(struct code_maps *maps, const struct snapshot *snapshot, struct code_map *map)
{
    struct stat file;
    *map = (struct code_map){.limit = CODES_OWN_START, .file = maps->perf_map};
    perf_map_path(maps->perf_map, own_pid(maps->pid));
    int fd = maps->is_of_core ? -1 : code_maps_open(maps, map);
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0 && is_of_process(maps, snapshot, &file)) {
        map->inode = file.st_ino;
        maps->generated = map;
    }
    close(fd);
}

void code_maps_read(struct code_maps *maps, const struct snapshot *snapshot, const struct exporter_memory *memory)
{
    pid_t pid = snapshot->from_outside && !snapshot->code_maps ? (pid_t)snapshot->pid : 0;
    *maps = (struct code_maps){.memory = memory, .pid = pid, .is_of_core = snapshot->code_maps};
    maps->text = snapshot->code_maps ? copy_text(snapshot->code_maps, memory) : read_maps(pid, memory);
    size_t most = (maps->text ? count_lines(maps->text) : 0) + (size_t)snapshot->n_codes + 2;
    maps->maps = exporter_memory_take(memory, most, sizeof *maps->maps);
    if (!maps->maps)
        return;
    struct image image = {0};
    for (char *line = maps->text, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        maps->n += take_line(&maps->maps[maps->n], &image, line);
    }
    add_codes(maps, snapshot);
    find_perf_map(maps, snapshot, &maps->maps[maps->n + maps->n_codes]);
}

void code_maps_free(struct code_maps *maps)
{
    exporter_memory_give(maps->memory, maps->maps);
    exporter_memory_give(maps->memory, maps->text);
}

static struct code_map *find_mapped(const struct code_maps *maps, uint64_t address)
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

static struct code_map *find_code(const struct code_maps *maps, uint64_t address)
{
    for (uint32_t i = maps->n; i < maps->n + maps->n_codes; i++)
        if (address - maps->maps[i].code->shown < maps->maps[i].code->bytes)
            return &maps->maps[i];
    return NULL;
}

/* Whether the code is still what is mapped. The program may have unloaded it without noticing yet. Segments that the table of code does
 * not describe are told by their file. */
static bool is_mapped(const struct code_map *code, const struct code_map *mapped)
{
    bool is_there = mapped && code->code->shown == code->code->start && load_relaxed(&code->code->state) == CODE_LOADED &&
                    mapped->start - code->code->start < code->code->bytes;
    return is_there && (!code->code->file[0] || strcmp(mapped->file, code->file) == 0) &&
           (mapped->start - code->start >= code->limit - code->start ||
            mapped->start - mapped->offset == code->start - code->offset);
}

/* Code that is no longer mapped, as in a process that has ended, and is not in the table of code was generated too. */
struct code_map *code_maps_find(const struct code_maps *maps, uint64_t address)
{
    struct code_map *mapped = find_mapped(maps, address), *code = find_code(maps, address);
    if (!code && maps->generated && address < maps->generated->limit && (!mapped || is_generated(mapped)))
        return maps->generated;
    if (!code || is_mapped(code, mapped))
        return mapped;
    return address - code->start < code->limit - code->start ? code : NULL;
}

void code_maps_build_id(char *build_id, const struct code *code)
{
    hex_encode(build_id, code->parts.build_id, code->parts.build_id_bytes);
}

/* Another file may have the name of code that was unloaded. */
static bool has_build_id(int fd, const struct code *code)
{
    char right[2 * PROGRAM_BUILD_ID_BYTES + 1], is[2 * PROGRAM_BUILD_ID_BYTES + 1] = "";
    code_maps_build_id(right, code);
    pprof_head_build_id(is, fd, 0);
    return is[0] && strcmp(is, right) == 0;
}

/* Maps of a core file have no inodes. */
static bool is_file_of(const struct code_map *map, int fd)
{
    struct stat file;
    if (map->code)
        return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && has_build_id(fd, map->code);
    return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && (map->inode ? file.st_ino == map->inode : !map->is_deleted);
}

static int open_file(const char *path, const struct code_map *map)
{
    int fd = descriptor_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd >= 0 && !is_file_of(map, fd)) {
        close(fd);
        return -ESTALE;
    }
    return fd >= 0 ? fd : -1;
}

void code_maps_identify(char *build_id, const struct code_maps *maps, const struct code_map *map, int fd)
{
    if (map == maps->generated)
        perf_map_identify(build_id, fd);
    else
        pprof_head_build_id(build_id, fd, 0);
}

/* A process in another root directory has names as they are there if that is the root of its mounts, as in a container, and as they are
 * here after chroot(). */
int code_maps_open(const struct code_maps *maps, const struct code_map *map)
{
    char path[PATH_MAX + 32];
    int fd = -1;
    if (map->file[0] != '/')
        return -1;
    if (maps->pid) {
        process_path_in_root(path, sizeof path, maps->pid, map->file);
        fd = open_file(path, map);
    }
    if (fd < 0) {
        int here = open_file(map->file, map);
        fd = here >= 0 || fd == -1 ? here : fd;
    }
    return fd == -1 && map->is_deleted ? -ESTALE : fd;
}

int code_maps_open_memory(const struct code_maps *maps)
{
    return maps->is_of_core ? -1 : open_in_proc(maps->pid, "mem");
}
