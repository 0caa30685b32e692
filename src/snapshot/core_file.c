/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a process that dumped core. */
#include "snapshot/core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/number.h"
#include "snapshot/core_notes.h"

#define PAGE_BYTES ((uint64_t)4096)
#define MAX_SEGMENTS 65534u /* more would need another header */
#define MOST_PARTS 16       /* mappings of a file, which follow each other */

/* The file may change while it is read: that of a process that lives, or a hostile one. So what is checked is copied before,
 * and nothing is mapped, as a file that is cut off meanwhile would be a SIGBUS. */
struct core_file {
    int fd;
    uint64_t bytes, unix_ns;
    Elf64_Phdr *segments;
    uint32_t n_segments, n_bounds;
    uint64_t *bounds;          /* where segments begin and end, in order */
    const Elf64_Phdr **owners; /* of the addresses from a bound to the next; NULL: no segment */
    struct core_notes notes; /* their files in the order of the addresses */
    char *maps;
    struct program program;
    bool lacks_state; /* a shared file's memory was asked for */
};

static bool is_core(const Elf64_Ehdr *h)
{
    const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == order &&
           h->e_type == ET_CORE;
}

bool core_file_is(int fd)
{
    Elf64_Ehdr header;
    return pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header && is_core(&header);
}

/* Returns 0, or a negative errno: ENODATA: the file is shorter by now. */
static int read_at(const struct core_file *c, void *to, uint64_t offset, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(c->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (n <= 0 && (n == 0 || errno != EINTR))
            return n ? -errno : -ENODATA;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static bool is_inside(const struct core_file *c, uint64_t offset, uint64_t bytes)
{
    return offset <= c->bytes && bytes <= c->bytes - offset;
}

/* ---- Segments: in the order of their addresses ---- */

static int read_segments(struct core_file *c)
{
    Elf64_Ehdr header;
    int error = read_at(c, &header, 0, sizeof header);
    if (error)
        return error;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > MAX_SEGMENTS || header.e_phoff % 8)
        return -EBADMSG;
    if (!is_inside(c, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)))
        return -ENODATA;
    c->segments = malloc((header.e_phnum + 1u) * sizeof *c->segments);
    if (!c->segments)
        return -ENOMEM;
    error = read_at(c, c->segments, header.e_phoff, header.e_phnum * sizeof *c->segments);
    c->n_segments = error ? 0 : header.e_phnum;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const Elf64_Phdr *s = &c->segments[i];
        if (!is_inside(c, s->p_offset, s->p_filesz))
            return s->p_offset > INT64_MAX || s->p_filesz > INT64_MAX ? -EBADMSG : -ENODATA;
    }
    return error;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t end_of(const Elf64_Phdr *s)
{
    return s->p_memsz > UINT64_MAX - s->p_vaddr ? UINT64_MAX : s->p_vaddr + s->p_memsz;
}

/* The number of bounds that are at the address or below it. */
static uint32_t count_up_to(const struct core_file *c, uint64_t address)
{
    uint32_t low = 0, high = c->n_bounds;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->bounds[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first range from `i` on that has no segment yet. `next` leads there, and becomes shorter. */
static uint32_t first_free(uint32_t *next, uint32_t i)
{
    for (; next[i] != i; i = next[i])
        next[i] = next[next[i]];
    return i;
}

/* Segments may overlap, as in a state file, and a hostile core has as many as it likes. So their bounds make ranges, each of which
 * belongs to the first segment in it, and an address is found by bisection. */
static int index_segments(struct core_file *c)
{
    uint32_t *next = malloc((2u * c->n_segments + 1u) * sizeof *next);
    c->bounds = malloc((2u * c->n_segments + 1u) * sizeof *c->bounds);
    c->owners = calloc(2u * c->n_segments + 1u, sizeof *c->owners);
    if (!next || !c->bounds || !c->owners) {
        free(next);
        return -ENOMEM;
    }
    for (const Elf64_Phdr *s = c->segments; s < c->segments + c->n_segments; s++)
        if (s->p_type == PT_LOAD && s->p_memsz) {
            c->bounds[c->n_bounds++] = s->p_vaddr;
            c->bounds[c->n_bounds++] = end_of(s);
        }
    qsort(c->bounds, c->n_bounds, sizeof *c->bounds, by_number);
    for (uint32_t i = 0; i <= c->n_bounds; i++)
        next[i] = i;
    for (const Elf64_Phdr *s = c->segments; s < c->segments + c->n_segments; s++) {
        if (s->p_type != PT_LOAD || !s->p_memsz)
            continue;
        uint32_t end = count_up_to(c, end_of(s)) - 1;
        for (uint32_t i = first_free(next, count_up_to(c, s->p_vaddr) - 1); i < end; i = first_free(next, i)) {
            c->owners[i] = s;
            next[i] = i + 1;
        }
    }
    free(next);
    return 0;
}

/* The segment with an address, whether the core has its bytes or not. */
static const Elf64_Phdr *find_segment(const struct core_file *c, uint64_t address)
{
    uint32_t n = count_up_to(c, address);
    return n ? c->owners[n - 1] : NULL;
}

/* ---- Files ---- */

/* In a state file, a library that was loaded later may cover others, which were unloaded. */
#define COVERED_MOST 64

static struct mapped *find_file(const struct core_file *c, uint64_t address)
{
    uint64_t low = 0, high = c->notes.n_files;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (c->notes.files[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint64_t i = low; i > 0 && low - i < COVERED_MOST; i--)
        if (address < c->notes.files[i - 1].end)
            return &c->notes.files[i - 1];
    return NULL;
}

/* Whether the file begins with the page that the process had from its beginning. */
static bool begins_the_same(const struct core_file *c, const char *path, int fd)
{
    char page[PAGE_BYTES], then[PAGE_BYTES];
    for (uint64_t i = 0; i < c->notes.n_files; i++) {
        const struct mapped *m = &c->notes.files[i];
        const Elf64_Phdr *s = m->offset || strcmp(m->path, path) ? NULL : find_segment(c, m->start);
        if (!s || s->p_vaddr != m->start || s->p_filesz < PAGE_BYTES)
            continue;
        ssize_t n = pread(fd, page, sizeof page, 0);
        return n > 0 && !read_at(c, then, s->p_offset, (size_t)n) && !memcmp(page, then, (size_t)n);
    }
    return false;
}

static int file_of(const struct core_file *c, struct mapped *m)
{
    struct stat status;
    if (m->fd)
        return m->fd;
    m->fd = descriptor_open(m->path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (m->fd >= 0 && (fstat(m->fd, &status) || !S_ISREG(status.st_mode) || !begins_the_same(c, m->path, m->fd))) {
        close(m->fd);
        m->fd = -1;
    }
    return m->fd;
}

static size_t copy_from_file(const struct core_file *c, struct mapped *m, char *to, uint64_t from, size_t bytes)
{
    size_t n = lesser(m->end - from, bytes);
    if (file_of(c, m) < 0)
        return 0;
    ssize_t got = pread(m->fd, to, n, (off_t)(m->offset + (from - m->start)));
    if (got <= 0)
        return 0;
    memset(to + got, 0, n - (size_t)got); /* what follows the file's end in its last page */
    return n;
}

static bool has_code(const struct core_file *c, const char *path)
{
    bool found = false;
    for (uint64_t i = 0; i < c->notes.n_files && !found; i++)
        found = c->notes.files[i].flags & PF_X && !strcmp(c->notes.files[i].path, path);
    return found;
}

/* Copies as many bytes as are in one place. Returns their number; 0: there is nothing at the address. The kernel leaves out
 * mappings of no file that were never written to; they are zero. So is what had no room in a state file. */
static size_t copy_some(struct core_file *c, char *to, uint64_t from, size_t bytes)
{
    const Elf64_Phdr *s = find_segment(c, from);
    uint64_t at = s ? from - s->p_vaddr : 0;
    if (s && at < s->p_filesz) {
        size_t n = lesser(s->p_filesz - at, bytes);
        return read_at(c, to, s->p_offset + at, n) ? 0 : n;
    }
    struct mapped *m = find_file(c, from);
    if (m) {
        size_t n = copy_from_file(c, m, to, from, bytes);
        c->lacks_state |= !n && !has_code(c, m->path);
        return n;
    }
    size_t n = s ? lesser(s->p_memsz - at, bytes) : 0;
    if (!s && c->notes.is_incomplete)
        n = lesser(PAGE_BYTES - from % PAGE_BYTES, bytes);
    memset(to, 0, n);
    return n;
}

int core_file_copy(struct core_file *core, const struct piece *pieces, size_t n)
{
    for (const struct piece *p = pieces; p < pieces + n; p++)
        for (size_t done = 0, some; done < p->bytes; done += some) {
            some = p->from > UINT64_MAX - p->bytes ? 0 : copy_some(core, (char *)p->to + done, p->from + done, p->bytes - done);
            if (!some)
                return -EFAULT;
        }
    return 0;
}

static int read_notes(struct core_file *c, const Elf64_Phdr *s)
{
    char *room;
    int error = core_notes_room(&c->notes, s->p_filesz, &room);
    if (!error)
        error = read_at(c, room, s->p_offset, s->p_filesz);
    return error ? error : core_notes_take(&c->notes, room, s->p_filesz);
}

/* ---- What is known of the program ---- */


static const char *access_of(const struct mapped *m)
{
    return m->flags & PF_X ? "r-xp" : m->flags & PF_W ? "rw-p" : m->flags & PF_R ? "r--p" : "---p";
}

static int by_address(const void *a, const void *b)
{
    const struct mapped *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* gcore(1) has no segments of code. The program headers say what it was; they are in the first page of the file. */
static uint32_t flags_by_headers(struct core_file *c, const struct mapped *m)
{
    const struct mapped *image = m, *first = m - c->notes.files > MOST_PARTS ? m - MOST_PARTS : c->notes.files;
    char page[PAGE_BYTES];
    Elf64_Ehdr header;
    Elf64_Phdr part;
    while (image > first && image->offset)
        image--;
    const struct piece piece = {page, image->start, sizeof page};
    if (image->offset || strcmp(image->path, m->path) || !find_segment(c, image->start) || core_file_copy(c, &piece, 1))
        return 0;
    memcpy(&header, page, sizeof header);
    for (size_t i = 0; !memcmp(header.e_ident, ELFMAG, SELFMAG) && i < header.e_phnum; i++) {
        if (header.e_phoff > sizeof page || header.e_phoff + (i + 1) * sizeof part > sizeof page)
            return 0;
        memcpy(&part, page + header.e_phoff + i * sizeof part, sizeof part);
        if (part.p_type == PT_LOAD && part.p_offset / PAGE_BYTES * PAGE_BYTES == m->offset)
            return part.p_flags;
    }
    return 0;
}

static void find_flags(struct core_file *c)
{
    for (uint64_t i = 0; i < c->notes.n_files; i++) {
        struct mapped *m = &c->notes.files[i];
        const Elf64_Phdr *s = find_segment(c, m->start);
        m->flags = s ? s->p_flags : flags_by_headers(c, m);
    }
}

static int write_maps(struct core_file *c)
{
    size_t bytes;
    FILE *out = open_memstream(&c->maps, &bytes);
    if (!out)
        return -ENOMEM;
    for (uint64_t i = 0; i < c->notes.n_files; i++) {
        const struct mapped *m = &c->notes.files[i];
        if (!strchr(m->path, '\n'))
            fprintf(out, "%" PRIx64 "-%" PRIx64 " %s %" PRIx64 " 00:00 0 %s\n", m->start, m->end, access_of(m), m->offset, m->path);
    }
    return fclose(out) ? -ENOMEM : 0;
}

/* The program is the file whose last part is the process's name. */
static void find_program(struct core_file *c)
{
    const struct mapped *found = NULL;
    size_t name_bytes = strlen(c->notes.program);
    for (uint64_t i = 0; i < c->notes.n_files && !found; i++) {
        const char *slash = strrchr(c->notes.files[i].path, '/');
        if (name_bytes && slash && !strncmp(slash + 1, c->notes.program, name_bytes))
            found = &c->notes.files[i];
    }
    if (!found && c->notes.n_files)
        found = &c->notes.files[0];
    for (uint64_t i = 0; found && i < c->notes.n_files; i++) {
        const struct mapped *m = &c->notes.files[i];
        if (!strcmp(m->path, found->path) && m->flags & PF_X && !c->program.limit) {
            c->program.start = m->start;
            c->program.limit = m->end;
            c->program.offset = m->offset;
        }
    }
    snprintf(c->program.file, sizeof c->program.file, "%s", found && found->path[0] ? found->path : "(unknown)");
}

/* ---- Opening ---- */

static int check_file(struct core_file *c)
{
    struct stat status;
    if (fstat(c->fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode) || !core_file_is(c->fd))
        return -ENOEXEC;
    c->bytes = (uint64_t)status.st_size;
    c->unix_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
    return 0;
}

static int read_core(struct core_file *c)
{
    int error = read_segments(c);
    if (!error)
        error = index_segments(c);
    for (uint32_t i = 0; !error && i < c->n_segments; i++)
        if (c->segments[i].p_type == PT_NOTE)
            error = read_notes(c, &c->segments[i]);
    if (c->notes.n_files)
        qsort(c->notes.files, c->notes.n_files, sizeof *c->notes.files, by_address);
    if (c->notes.changed_ns > c->unix_ns)
        c->unix_ns = c->notes.changed_ns;
    if (!error) {
        find_flags(c);
        error = write_maps(c);
    }
    if (!error)
        find_program(c);
    return error;
}

int core_file_open(struct core_file **core, const char *path)
{
    int fd = descriptor_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    struct core_file *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->fd = fd;
    int error = check_file(c);
    if (!error)
        error = read_core(c);
    if (error)
        core_file_close(c);
    else
        *core = c;
    return error;
}

void core_file_close(struct core_file *core)
{
    if (!core)
        return;
    for (uint64_t i = 0; i < core->notes.n_files; i++)
        if (core->notes.files[i].fd > 0)
            close(core->notes.files[i].fd);
    close(core->fd);
    free(core->segments);
    free(core->bounds);
    free(core->owners);
    core_notes_free(&core->notes);
    free(core->maps);
    free(core);
}

const char *core_file_maps(const struct core_file *core)
{
    return core->maps;
}

const struct program *core_file_program(const struct core_file *core)
{
    return &core->program;
}

pid_t core_file_pid(const struct core_file *core)
{
    return core->notes.pid;
}

uint64_t core_file_unix_ns(const struct core_file *core)
{
    return core->unix_ns;
}

bool core_file_is_incomplete(const struct core_file *core)
{
    return core->notes.is_incomplete;
}

bool core_file_lacks_state(const struct core_file *core)
{
    return core->lacks_state;
}
