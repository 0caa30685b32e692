/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the main program's mapping in /proc/self/maps and its build id in the notes of its ELF file. */
#include "pprof_mapping.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

#define MAX_NOTES_BYTES 4096 /* of one segment; real ones have about a hundred */

static void read_file_name(struct pprof_mapping *mapping)
{
    ssize_t bytes = readlink("/proc/thread-self/exe", mapping->file, sizeof mapping->file - 1);
    if (bytes > 0)
        mapping->file[bytes] = '\0';
    else
        snprintf(mapping->file, sizeof mapping->file, "(unknown)");
}

/* Whether the line is the mapping of the program's code; if so, takes its figures. */
static bool take_line(struct pprof_mapping *mapping, const char *line)
{
    uint64_t start, limit, offset;
    char access[5];
    int path_at = 0;
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &limit, access, &offset,
                   &path_at);
    size_t file_bytes = strlen(mapping->file);
    if (n != 4 || path_at == 0 || access[2] != 'x' || strncmp(line + path_at, mapping->file, file_bytes) != 0
        || line[(size_t)path_at + file_bytes] != '\0')
        return false;
    mapping->start = start;
    mapping->limit = limit;
    mapping->offset = offset;
    return true;
}

static bool take_lines(struct pprof_mapping *mapping, char *text)
{
    bool taken = false;
    for (char *end; !taken && (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = '\0';
        taken = take_line(mapping, text);
    }
    return taken;
}

/* The program is mapped before its libraries, so this ends after a few lines, of which the kernel gives whole ones only.
 * Without stdio, which allocates: there may be no memory left. */
static void read_addresses(struct pprof_mapping *mapping)
{
    char lines[PATH_MAX + 128];
    ssize_t n;
    int fd = descriptor_open("/proc/thread-self/maps", O_RDONLY, 0);
    if (fd < 0)
        return;
    do {
        n = read(fd, lines, sizeof lines - 1);
        lines[n > 0 ? n : 0] = '\0';
    } while (n > 0 && !take_lines(mapping, lines));
    close(fd);
}

static size_t padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

static void take_build_id(struct pprof_mapping *mapping, const unsigned char *id, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < PPROF_BUILD_ID_BYTES; i++)
        snprintf(mapping->build_id + 2 * i, 3, "%02x", id[i]);
}

/* Each note is a header, a name and a descriptor, the last two padded to 4 bytes. */
static void search_notes(struct pprof_mapping *mapping, const unsigned char *notes, size_t bytes)
{
    ElfW(Nhdr) note;
    for (size_t at = 0; bytes - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        size_t name_at = at, id_at = at + padded(note.n_namesz);
        if (note.n_namesz > bytes || note.n_descsz > bytes || id_at > bytes || note.n_descsz > bytes - id_at)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && memcmp(notes + name_at, "GNU", 4) == 0)
            take_build_id(mapping, notes + id_at, note.n_descsz);
        at = id_at + padded(note.n_descsz);
        if (at > bytes)
            return;
    }
}

static void read_segment(struct pprof_mapping *mapping, int fd, const ElfW(Phdr) *segment)
{
    unsigned char notes[MAX_NOTES_BYTES];
    if (segment->p_type != PT_NOTE || mapping->build_id[0] != '\0')
        return;
    size_t wanted = segment->p_filesz < sizeof notes ? segment->p_filesz : sizeof notes;
    ssize_t bytes = pread(fd, notes, wanted, (off_t)segment->p_offset);
    if (bytes > 0)
        search_notes(mapping, notes, (size_t)bytes);
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* The file is of this process's own class and byte order, since it runs. */
static void read_build_id(struct pprof_mapping *mapping)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    int fd = descriptor_open("/proc/thread-self/exe", O_RDONLY, 0);
    if (fd < 0)
        return;
    if (read_at(fd, &header, sizeof header, 0) && header.e_phentsize == sizeof segment)
        for (size_t i = 0; i < header.e_phnum; i++)
            if (read_at(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment))
                read_segment(mapping, fd, &segment);
    close(fd);
}

/* What the kernel adds when the file was replaced or removed, as an upgrade does. */
static void strip_deleted(char *file)
{
    static const char deleted[] = " (deleted)";
    size_t bytes = strlen(file), suffix = sizeof deleted - 1;
    if (bytes > suffix && strcmp(file + bytes - suffix, deleted) == 0)
        file[bytes - suffix] = '\0';
}

void pprof_mapping_read(struct pprof_mapping *mapping)
{
    memset(mapping, 0, sizeof *mapping);
    read_file_name(mapping);
    read_addresses(mapping);
    read_build_id(mapping);
    strip_deleted(mapping->file);
}
