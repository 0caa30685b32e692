/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of a profile: the types of values, the program, the times, comments. */
#include <config.h>

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/comments.h"
#include "base/descriptor.h"
#include "base/encode.h"
#include "base/number.h"
#include "base/process_stat.h"
#include "pprof_parts.h"
#include "profile.pb-c.h"

/* ---- The program in memory ---- */

#define MAX_NOTES_BYTES 4096 /* of one segment. Usual ones have about a hundred */

static void read_file_name(struct program *program, pid_t pid)
{
    char path[PROCESS_PATH_BYTES];
    ssize_t bytes = readlink(process_path(path, pid, "exe"), program->file, sizeof program->file - 1);
    if (bytes > 0)
        program->file[bytes] = '\0';
    else
        snprintf(program->file, sizeof program->file, "(unknown)");
}

/* Reads the line if it is the mapping of the program's code. False: it is another mapping. */
static bool take_line(struct program *program, const char *line)
{
    uint64_t start, limit, offset;
    char access[5];
    int path_at = 0;
    int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &limit, access, &offset,
                   &path_at);
    size_t file_bytes = strlen(program->file);
    if (n != 4 || path_at == 0 || access[2] != 'x' || strncmp(line + path_at, program->file, file_bytes) != 0
        || line[(size_t)path_at + file_bytes] != '\0')
        return false;
    program->start = start;
    program->limit = limit;
    program->offset = offset;
    return true;
}

static bool take_lines(struct program *program, char *text)
{
    bool taken = false;
    for (char *end; !taken && (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        taken = take_line(program, text);
    }
    return taken;
}

/* The program is mapped before its libraries, so a few lines are enough. The kernel returns only whole lines. stdio is
 * not used, because it allocates and there may be no memory left. A thread that dumps may have a small stack, so the
 * buffers of this function and of read_segment() must not be there at the same time. */
static NOINLINE void read_addresses(struct program *program, pid_t pid)
{
    char path[PROCESS_PATH_BYTES];
    char lines[PATH_MAX + 128];
    ssize_t n;
    int fd = descriptor_open(process_path(path, pid, "maps"), O_RDONLY, 0);
    if (fd < 0)
        return;
    do {
        n = read(fd, lines, sizeof lines - 1);
        lines[n > 0 ? n : 0] = '\0';
    } while (n > 0 && !take_lines(program, lines));
    close(fd);
}

static void take_build_id(char *build_id, const unsigned char *id, size_t bytes)
{
    hex_encode(build_id, id, bytes < PROGRAM_BUILD_ID_BYTES ? bytes : PROGRAM_BUILD_ID_BYTES);
}

/* Each note is a header, a name and a descriptor, the last two padded to 4 bytes. */
static void search_notes(char *build_id, const unsigned char *notes, size_t bytes)
{
    ElfW(Nhdr) note;
    for (size_t at = 0; bytes - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        size_t name_at = at, id_at = at + round_up(note.n_namesz, 4);
        if (note.n_namesz > bytes || note.n_descsz > bytes || id_at > bytes || note.n_descsz > bytes - id_at)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && memcmp(notes + name_at, "GNU", 4) == 0)
            take_build_id(build_id, notes + id_at, note.n_descsz);
        at = id_at + round_up(note.n_descsz, 4);
        if (at > bytes)
            return;
    }
}

static NOINLINE void read_segment(char *build_id, int fd, uint64_t start, const ElfW(Phdr) *segment)
{
    unsigned char notes[MAX_NOTES_BYTES];
    if (segment->p_type != PT_NOTE || build_id[0] != '\0')
        return;
    size_t wanted = segment->p_filesz < sizeof notes ? segment->p_filesz : sizeof notes;
    ssize_t bytes = pread(fd, notes, wanted, (off_t)(start + segment->p_offset));
    if (bytes > 0)
        search_notes(build_id, notes, (size_t)bytes);
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Reads the headers without libelf, which allocates. A file of another class has other headers, and no notes are found
 * in it. */
void pprof_head_build_id(char *build_id, int fd, uint64_t start)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    if (!read_at(fd, &header, sizeof header, start) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof segment)
        return;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (read_at(fd, &segment, sizeof segment, start + header.e_phoff + i * sizeof segment))
            read_segment(build_id, fd, start, &segment);
}

static void read_build_id(struct program *program, pid_t pid)
{
    char path[PROCESS_PATH_BYTES];
    int fd = descriptor_open(process_path(path, pid, "exe"), O_RDONLY, 0);
    if (fd < 0)
        return;
    pprof_head_build_id(program->build_id, fd, 0);
    close(fd);
}

/* The kernel adds this suffix if the file was replaced or removed, as by an upgrade. */
static void strip_deleted(char *file)
{
    static const char deleted[] = " (deleted)";
    size_t bytes = strlen(file), suffix = sizeof deleted - 1;
    if (bytes > suffix && strcmp(file + bytes - suffix, deleted) == 0)
        file[bytes - suffix] = '\0';
}

void pprof_head_identify(struct program *program, pid_t pid)
{
    memset(program, 0, sizeof *program);
    read_file_name(program, pid);
    read_addresses(program, pid);
    read_build_id(program, pid);
    strip_deleted(program->file);
}

/* ---- Writing ---- */

static void set_type(JespanPprof__ValueType *to, struct pprof_strings *strings, const struct pprof_type *type)
{
    jespan_pprof__value_type__init(to);
    to->type = pprof_strings_intern(strings, type->name);
    to->unit = pprof_strings_intern(strings, type->unit);
}

static void write_value_types(struct pprof_strings *strings, const struct pprof_kind *kind)
{
    JespanPprof__ValueType types[PPROF_MAX_VALUES], *pointers[PPROF_MAX_VALUES], period;
    for (int i = 0; i < kind->n_values; i++) {
        set_type(&types[i], strings, &kind->values[i]);
        pointers[i] = &types[i];
    }
    set_type(&period, strings, &kind->period);
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_sample_type = (size_t)kind->n_values;
    part.sample_type = pointers;
    part.period_type = &period;
    part.period = 1;
    pprof_out_message(strings->out, &part.base);
}

/* The mapping says whether functions, files and lines are known. If so, no reader looks them up in the binary. */
static void write_mapping(struct pprof_strings *strings, JespanPprof__Mapping *mapping, bool has_names)
{
    mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = has_names;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = &mapping;
    pprof_out_message(strings->out, &part.base);
}

static void write_program(struct pprof_strings *strings, const struct program *from, bool has_names)
{
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT;
    mapping.id = PPROF_PROGRAM_MAPPING_ID;
    mapping.memory_start = from->start;
    mapping.memory_limit = from->limit;
    mapping.file_offset = from->offset;
    mapping.filename = pprof_strings_intern(strings, from->file);
    mapping.build_id = pprof_strings_intern(strings, from->build_id);
    write_mapping(strings, &mapping, has_names);
}

/* Sites have invented addresses, in a mapping of their own. A name in brackets is no file, like the kernel's [vdso]. */
static void write_sites_mapping(struct pprof_strings *strings)
{
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT;
    mapping.id = PPROF_SITES_MAPPING_ID;
    mapping.memory_start = PPROF_SITES_START;
    mapping.memory_limit = PPROF_SITES_LIMIT;
    mapping.filename = pprof_strings_intern(strings, "[jespan]");
    write_mapping(strings, &mapping, true);
}

/* ---- Comments ---- */

#define MOST_COMMENTS 5
#define COMMENT_BYTES 160

struct comments {
    struct pprof_strings *strings;
    int64_t all[MOST_COMMENTS];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add_comment(struct comments *c, const char *format, ...)
{
    char text[COMMENT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    c->all[c->n++] = pprof_strings_append(c->strings, text);
}

static void write_times_and_comments(struct pprof_strings *strings, const struct snapshot *s, char *text, size_t bytes)
{
    struct comments c = {.strings = strings};
    int n = snprintf(text, bytes, "jespan %s", PACKAGE_VERSION);
    if (s->epoch > 0) /* 0: the snapshot was made from others */
        snprintf(text + n, bytes - (size_t)n, ", process %" PRIu32 ", snapshot %" PRIu64, s->pid, s->epoch);
    c.all[c.n++] = pprof_strings_intern(strings, text);
    if (s->note)
        c.all[c.n++] = pprof_strings_intern(strings, s->note);
    if (s->resident_bytes)
        add_comment(&c, COMMENT_RESIDENT "%" PRIu64 " bytes", s->resident_bytes);
    if (s->n_stacks && s->stacks_ended_early)
        add_comment(&c, "%" PRIu64 " stacks end before their outermost frame", s->stacks_ended_early);
    if (s->n_stacks && (s->stacks_cut || s->stacks_overflow))
        add_comment(&c, COMMENT_STACKS "%" PRIu64 " were cut, and %" PRIu64 " allocations have none; see max_stacks",
                    s->stacks_cut, s->stacks_overflow);
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.time_nanos = (int64_t)s->time_unix_ns;
    part.duration_nanos = s->time_unix_ns > s->start_unix_ns ? (int64_t)(s->time_unix_ns - s->start_unix_ns) : 0;
    part.n_comment = c.n;
    part.comment = c.all;
    pprof_out_message(strings->out, &part.base);
}

/* Readers that know functions show those that asked for the memory. What makes or ends an object for C++'s allocators may call anything. */
static void write_allocators(struct pprof_strings *strings)
{
    static const char names[] =
#define ALLOCATORS(names) "|" names
#include "base/allocators.def"
#undef ALLOCATORS
        ;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.drop_frames = pprof_strings_intern(strings, names + 1); /* without the first | */
    part.keep_frames = pprof_strings_intern(strings, ".*(construct|destroy).*");
    pprof_out_message(strings->out, &part.base);
}

const struct program *pprof_head_program(const struct pprof_head *head, const struct snapshot *snapshot)
{
    return snapshot->program ? snapshot->program : &head->program;
}

void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot)
{
    write_value_types(strings, kind);
    if (!snapshot->program)
        pprof_head_identify(&head->program, snapshot->from_outside ? (pid_t)snapshot->pid : 0);
    write_program(strings, pprof_head_program(head, snapshot), snapshot->n_stacks == 0);
    write_sites_mapping(strings);
    write_times_and_comments(strings, snapshot, head->comment, sizeof head->comment);
    if (snapshot->n_stacks)
        write_allocators(strings);
}
