/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the books in another process: through the note in the program, or in the library, that contains jespan.
 *
 * Each ELF file that is mapped has its headers in memory. They lead to its notes, also when the file was replaced or
 * removed, when the program is static, and when symbols were stripped.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/number.h"
#include "base/process_stat.h"
#include "snapshot/core_file.h"
#include "snapshot/view_parts.h"

#define MAX_SEGMENTS 64
#define MAX_NOTES_BYTES 4096

static int copy_one(struct space *space, void *to, uint64_t from, size_t bytes)
{
    const struct piece piece = {to, from, bytes};
    return space_copy(space, &piece, 1);
}

/* Whether there are books at the address. EAGAIN: their arrays are not there yet. */
static int check_books(struct space *space, struct books *copy, uint64_t at)
{
    uint64_t contexts_at;
    int error = copy_one(space, copy, at, sizeof *copy);
    if (error || memcmp(copy->magic, BOOKS_MAGIC, sizeof copy->magic) != 0)
        return error ? error : -ENOENT;
    if (copy->layout != BOOKS_LAYOUT || copy->fingerprint != books_fingerprint())
        return -EPROTONOSUPPORT;
    error = copy_one(space, &contexts_at, space_address(copy->contexts), sizeof contexts_at);
    return error ? error : contexts_at ? 0 : -EAGAIN;
}

/* Each note is a header, a name and a content, the last two padded to 4 bytes. */
static int search_notes(struct space *space, struct books *copy, uint64_t *at, uint64_t notes_at, size_t bytes)
{
    _Alignas(8) char notes[MAX_NOTES_BYTES];
    ElfW(Nhdr) note;
    int error = bytes > sizeof notes ? -ENOENT : copy_one(space, notes, notes_at, bytes);
    for (size_t i = 0; !error && bytes - i >= sizeof note;) {
        memcpy(&note, notes + i, sizeof note);
        size_t name = i + sizeof note, content = name + round_up(note.n_namesz, 4), end = content + round_up(note.n_descsz, 4);
        if (note.n_namesz > bytes || note.n_descsz > bytes || end > bytes)
            break;
        int64_t distance;
        if (note.n_type == BOOKS_NOTE_TYPE && note.n_namesz == sizeof BOOKS_NOTE_NAME && note.n_descsz == sizeof distance &&
            memcmp(notes + name, BOOKS_NOTE_NAME, sizeof BOOKS_NOTE_NAME) == 0) {
            memcpy(&distance, notes + content, sizeof distance);
            *at = notes_at + content + (uint64_t)distance;
            return check_books(space, copy, *at);
        }
        i = end;
    }
    return error ? error : -ENOENT;
}

/* `at` is where the first page of a file is mapped. */
static int search_file(struct space *space, struct books *copy, uint64_t *at, uint64_t file_at)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[MAX_SEGMENTS];
    uint64_t base = file_at;
    int error = copy_one(space, &header, file_at, sizeof header);
    if (error)
        return error;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof segments[0] || header.e_phnum > MAX_SEGMENTS)
        return -ENOENT;
    error = copy_one(space, segments, file_at + header.e_phoff, header.e_phnum * sizeof segments[0]);
    for (int i = 0; !error && i < header.e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
            base = file_at - segments[i].p_vaddr;
    int found = -ENOENT;
    for (int i = 0; !error && found == -ENOENT && i < header.e_phnum; i++)
        if (segments[i].p_type == PT_NOTE)
            found = search_notes(space, copy, at, base + segments[i].p_vaddr, segments[i].p_memsz);
    return error ? error : found;
}

/* Returns the error that says more. The order begins with those that say most. */
static int worse(int a, int b)
{
    static const int order[] = {-ESRCH, -EPERM, -EPROTONOSUPPORT, -EAGAIN};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return -ENOENT;
}

/* Returns the address of a mapping that begins with the first page of a file and can be read; 0: it does not. */
static uint64_t start_of_file(const char *line)
{
    uint64_t start, end, offset;
    char access[5];
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64, &start, &end, access, &offset);
    return n == 4 && access[0] == 'r' && offset == 0 && strchr(line, '/') ? start : 0;
}

static int search_lines(struct space *space, struct books *copy, uint64_t *at, char *text, int error)
{
    for (char *line = text, *end; error && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        uint64_t start = start_of_file(line);
        int result = start ? search_file(space, copy, at, start) : -ENOENT;
        error = result ? worse(error, result) : 0;
    }
    return error;
}

int view_why_no_entry(pid_t pid)
{
    if (!kill(pid, 0))
        return -ENOSYS;
    return errno == EPERM ? -EPERM : -ESRCH;
}

static int find_in_core(struct space *space, struct books *copy, uint64_t *at)
{
    char *lines = strdup(core_file_maps(space->core));
    int error = lines ? search_lines(space, copy, at, lines, -ENOENT) : -ENOMEM;
    free(lines);
    return error;
}

/* The kernel returns only whole lines. */
int view_find_books(struct space *space, struct books *copy, uint64_t *at)
{
    char path[PROCESS_PATH_BYTES], lines[8192];
    ssize_t n;
    int error = -ENOENT;
    if (space->core)
        return find_in_core(space, copy, at);
    int fd = descriptor_open(process_path(path, space->pid, "maps"), O_RDONLY, 0);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH ? view_why_no_entry(space->pid) : errno == EACCES ? -EPERM : -errno;
    do {
        n = read(fd, lines, sizeof lines - 1);
        lines[n > 0 ? n : 0] = '\0';
        if (n > 0)
            error = search_lines(space, copy, at, lines, error);
    } while (error && n > 0);
    if (n < 0)
        error = errno == EACCES ? -EPERM : -ESRCH;
    close(fd);
    return error;
}
