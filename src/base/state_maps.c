/* SPDX-License-Identifier: BSD-2-Clause */
/* What the state file says of the program and its libraries, for the names of its code: as in a core, notes with the mapped
 * files, and the first page of each, by which a reader finds the books and sees whether the file is still the same. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "base/lock.h"
#include "base/number.h"
#include "base/own_memory.h"
#include "base/state_file.h"

#define PAGE_BYTES 4096
#define TEXT_BYTES ((size_t)1 << 20) /* of /proc/thread-self/maps */
#define MAX_FILES (STATE_MAX_SEGMENTS / 4 * 3) /* the other segments are for areas of memory */

/* A line of /proc/thread-self/maps that is about a file. */
struct line {
    uint64_t start, end, offset;
    uint32_t flags;
    const char *path;
};

/* Code that the file knows, and whether there is a stack with other code. Under LOCK_STATE. Code that belongs to no file stays
 * unknown, so the maps are read once a second at most. */
#define LOOK_EVERY_NS UINT64_C(1000000000)
static struct code {
    uint64_t start, end;
} codes[MAX_FILES];
static uint32_t n_codes, n_notes; /* each has a segment */
static bool is_due, is_refused; /* no segment is left */
static _Atomic uint64_t next_look_ns;

static bool is_known(uint64_t address)
{
    for (uint32_t i = 0; i < n_codes; i++)
        if (address >= codes[i].start && address < codes[i].end)
            return true;
    return false;
}

struct maps {
    char text[TEXT_BYTES];
    struct line lines[MAX_FILES];
    bool keeps[MAX_FILES];
    uint32_t n;
};

/* Lines for which there are segments, beside the note about them. */
static uint32_t room(void)
{
    uint32_t used = n_codes + n_notes + 1;
    return is_refused || used >= MAX_FILES ? 0 : MAX_FILES - used;
}

static bool read_text(struct maps *m)
{
    size_t n = 0;
    ssize_t got = 1;
    int fd = descriptor_open("/proc/thread-self/maps", O_RDONLY, 0);
    while (fd >= 0 && got > 0 && n < TEXT_BYTES - 1) {
        got = descriptor_read(fd, m->text + n, TEXT_BYTES - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        descriptor_close(fd);
    return n > 0;
}

/* START-END ACCESS OFFSET DEVICE INODE PATH. Returns false for lines without a path that begins with a slash. */
static bool parse_line(char *text, struct line *line)
{
    char *at, *path = strchr(text, '/');
    line->start = strtoull(text, &at, 16);
    if (!path || *at != '-')
        return false;
    line->end = strtoull(at + 1, &at, 16);
    if (*at != ' ' || at + 6 > path)
        return false;
    line->flags = (at[1] == 'r' ? PF_R : 0u) | (at[2] == 'w' ? PF_W : 0u) | (at[3] == 'x' ? PF_X : 0u);
    line->offset = strtoull(at + 6, NULL, 16);
    line->path = path;
    return true;
}

static void parse(struct maps *m)
{
    for (char *line = m->text, *end; (end = strchr(line, '\n')) && m->n < MAX_FILES; line = end + 1) {
        *end = '\0';
        m->n += parse_line(line, &m->lines[m->n]);
    }
}

/* Whether the file has code, as the program and libraries have. Other files may be devices, whose pages must not be read. */
static bool has_code(const struct maps *m, const char *path)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->lines[i].flags & PF_X && !strcmp(m->lines[i].path, path))
            return true;
    return false;
}

static void keep_new_code(struct maps *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++)
        m->keeps[i] = !is_known(m->lines[i].start) && has_code(m, m->lines[i].path);
    for (uint32_t i = 0; i < m->n; i++)
        if (m->keeps[i] && n < room())
            m->lines[n++] = m->lines[i];
    m->n = n;
}

/* A whole page of the file, or zeros behind its end. It may be gone since the maps were read, as by another thread's dlclose(). */
static uint64_t copy_first_page(const struct line *line, uint64_t *offset)
{
    char *page = line->offset == 0 && line->flags & PF_R ? state_take(PAGE_BYTES, offset) : NULL;
    int error = page ? own_memory_read(page, (const void *)(uintptr_t)line->start, PAGE_BYTES) : -ENOSPC;
    if (error == -EPERM || error == -ENOSYS) {
        memcpy(page, (const void *)(uintptr_t)line->start, PAGE_BYTES);
        error = 0;
    }
    return error ? 0 : PAGE_BYTES;
}

static char *put_note(char *to, const char *name, size_t name_bytes, uint32_t type, size_t bytes)
{
    const Elf64_Nhdr note = {.n_namesz = (Elf64_Word)name_bytes, .n_descsz = (Elf64_Word)bytes, .n_type = type};
    memcpy(to, &note, sizeof note);
    memcpy(to + sizeof note, name, name_bytes);
    return to + sizeof note + round_up(name_bytes, 4);
}

#define NOTE_BYTES(name, content) (sizeof(Elf64_Nhdr) + ((sizeof(name) + 3) & ~(size_t)3) + (((content) + 3) & ~(size_t)3))

/* NT_FILE: the number of files and the unit of offsets; for each file start, end and offset; then the paths. */
static size_t files_bytes(const struct maps *m)
{
    size_t bytes = 2 * sizeof(uint64_t) + (size_t)m->n * 3 * sizeof(uint64_t);
    for (uint32_t i = 0; i < m->n; i++)
        bytes += strlen(m->lines[i].path) + 1;
    return bytes;
}

static void put_files(char *to, const struct maps *m)
{
    const uint64_t head[] = {m->n, 1};
    memcpy(to, head, sizeof head);
    to += sizeof head;
    for (uint32_t i = 0; i < m->n; i++, to += 3 * sizeof(uint64_t))
        memcpy(to, (const uint64_t[]){m->lines[i].start, m->lines[i].end, m->lines[i].offset}, 3 * sizeof(uint64_t));
    for (uint32_t i = 0; i < m->n; i++) {
        strcpy(to, m->lines[i].path);
        to += strlen(to) + 1;
    }
}

static void add_notes(const struct maps *m)
{
    struct elf_prpsinfo process = {.pr_pid = getpid()};
    uint64_t offset;
    size_t files = files_bytes(m), bytes = NOTE_BYTES("CORE", sizeof process) + NOTE_BYTES("CORE", files);
    char *to = state_take(bytes, &offset);
    if (!to)
        return;
    if (prctl(PR_GET_NAME, process.pr_fname))
        process.pr_fname[0] = '\0';
    memcpy(put_note(to, "CORE", sizeof "CORE", NT_PRPSINFO, sizeof process), &process, sizeof process);
    put_files(put_note(to + NOTE_BYTES("CORE", sizeof process), "CORE", sizeof "CORE", NT_FILE, files), m);
    n_notes += state_add_segment(PT_NOTE, 0, 0, 0, offset, bytes);
}

static void add(struct maps *m)
{
    keep_new_code(m);
    if (m->n)
        add_notes(m);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct line *line = &m->lines[i];
        uint64_t offset = 0, bytes = copy_first_page(line, &offset);
        is_refused = !state_add_segment(PT_LOAD, line->flags, line->start, line->end - line->start, offset, bytes);
        if (is_refused)
            break;
        codes[n_codes++] = (struct code){line->start, line->end};
    }
}

COLD void state_add_maps(void)
{
    struct maps *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        return;
    if (read_text(m)) {
        parse(m);
        lock(LOCK_STATE);
        add(m);
        unlock(LOCK_STATE);
    }
    munmap(m, sizeof *m);
}

COLD void state_see_code(uintptr_t address)
{
    if (!state_is_on())
        return;
    lock(LOCK_STATE);
    is_due = is_due || (room() > 0 && !is_known(address));
    unlock(LOCK_STATE);
}

COLD void state_add_maps_if_due(void)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    if (now < load_relaxed(&next_look_ns))
        return;
    store_relaxed(&next_look_ns, now + LOOK_EVERY_NS);
    lock(LOCK_STATE);
    bool was_due = is_due;
    is_due = false;
    unlock(LOCK_STATE);
    if (was_due)
        state_add_maps();
}
