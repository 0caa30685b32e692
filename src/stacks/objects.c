/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds loaded objects by _dl_find_object() of glibc 2.35, which takes no lock, and reads the first page of each. */
#include "stacks/objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/number.h"
#include "stacks/stack_bounds.h"

#ifndef PT_GNU_SFRAME /* glibc 2.41 has it */
#define PT_GNU_SFRAME 0x6474e554
#endif

#define PAGE_BYTES ((uintptr_t)4096)

static uintptr_t page_of(uintptr_t address)
{
    return address & ~(PAGE_BYTES - 1);
}

/* ---- The first page of an object ---- */

/* The page has the program headers, and as a rule the build id. */
#define HEAD_BYTES  1280 /* for 21 segments; few objects have more than 14. Threads may have small stacks */
#define NOTES_BYTES 512

struct headers {
    const char *start;
    size_t room; /* bytes up to the end of the page */
    int n;       /* segments; 0: they cannot be read */
    union {
        ElfW(Ehdr) elf;
        char bytes[HEAD_BYTES];
    } head;
};

static ElfW(Phdr) segment_at(const struct headers *h, int i)
{
    ElfW(Phdr) segment;
    memcpy(&segment, h->head.bytes + h->head.elf.e_phoff + (size_t)i * sizeof segment, sizeof segment);
    return segment;
}

/* False: no object begins there. */
static bool read_headers_at(struct headers *h, uintptr_t start)
{
    const ElfW(Ehdr) *elf = &h->head.elf;
    h->start = (const char *)start;
    h->room = PAGE_BYTES - (start & (PAGE_BYTES - 1));
    h->n = 0;
    if (h->room < HEAD_BYTES || !stack_page_copy(h->head.bytes, start, HEAD_BYTES) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phoff > HEAD_BYTES)
        return false;
    size_t fit = (HEAD_BYTES - elf->e_phoff) / sizeof(ElfW(Phdr));
    h->n = elf->e_phnum < fit ? elf->e_phnum : (int)fit;
    return true;
}

/* Where there are gaps between an object's segments, as with a linker that aligns these to 2 MiB, libc finds each of them as an object.
 * Such an object begins at its base address; a program that is not relocatable begins where the kernel found its headers. The link map
 * may be freed meanwhile. */
static void read_headers(struct headers *h, const struct dl_find_object *object)
{
    uintptr_t base;
    if (!read_headers_at(h, (uintptr_t)object->dlfo_map_start) &&
        stack_page_copy(&base, (uintptr_t)&object->dlfo_link_map->l_addr, sizeof base))
        read_headers_at(h, base ? base : page_of(getauxval(AT_PHDR)));
}

/* Copies the notes of a segment, if it has any and they are in the first page. Most come right after the headers, and were read with
 * them. Returns their bytes; 0: none. */
static size_t read_notes(const struct headers *h, const ElfW(Phdr) *segment, char notes[NOTES_BYTES])
{
    if (segment->p_type != PT_NOTE || segment->p_offset >= h->room || segment->p_filesz > h->room - segment->p_offset)
        return 0;
    size_t bytes = segment->p_filesz < NOTES_BYTES ? segment->p_filesz : NOTES_BYTES;
    if (segment->p_offset + bytes <= HEAD_BYTES) {
        memcpy(notes, h->head.bytes + segment->p_offset, bytes);
        return bytes;
    }
    return stack_page_copy(notes, (uintptr_t)h->start + segment->p_offset, bytes) ? bytes : 0;
}

/* ---- Identity ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return ((hash ^ value) * 0x9e3779b97f4a7c15u) ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i + sizeof hash <= n; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + i, sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

/* Another object may be loaded later at the same place, with the same size: the sizes of segments and the build id tell them
 * apart. */
static uint64_t identity_by(const struct headers *headers, const struct dl_find_object *object)
{
    char notes[NOTES_BYTES];
    uint64_t h = mix(mix((uintptr_t)object->dlfo_map_start, (uintptr_t)object->dlfo_map_end), (uintptr_t)object->dlfo_eh_frame);
    for (int i = 0; i < headers->n; i++) {
        ElfW(Phdr) segment = segment_at(headers, i);
        h = mix_bytes(h, &segment, sizeof segment);
        h = mix_bytes(h, notes, read_notes(headers, &segment, notes));
    }
    h = mix(h, h >> 29);
    return h ? h : 1;
}

static uint64_t identity_of(const struct dl_find_object *object)
{
    struct headers headers;
    read_headers(&headers, object);
    return identity_by(&headers, object);
}

static struct object object_of(const struct dl_find_object *found)
{
    uintptr_t start = (uintptr_t)found->dlfo_map_start;
    return (struct object){.start = start, .bytes = (uintptr_t)found->dlfo_map_end - start, .link_map = (uintptr_t)found->dlfo_link_map};
}

/* Addresses of the loaded segment that has the address in it. Both NULL: none has. */
struct loaded {
    const unsigned char *start, *end;
};

static struct loaded find_loaded(const struct headers *headers, uintptr_t base, const unsigned char *address)
{
    for (int i = 0; i < headers->n; i++) {
        ElfW(Phdr) segment = segment_at(headers, i);
        uintptr_t from = base + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && (uintptr_t)address - from < segment.p_filesz && stack_page_is_readable((uintptr_t)address))
            return (struct loaded){(const void *)from, (const void *)(from + segment.p_filesz)};
    }
    return (struct loaded){0};
}

static struct sframe_section find_sframe(const struct headers *headers, uintptr_t base)
{
    for (int i = 0; i < headers->n; i++) {
        ElfW(Phdr) segment = segment_at(headers, i);
        const unsigned char *start = (const void *)(base + segment.p_vaddr);
        struct loaded loaded = segment.p_type == PT_GNU_SFRAME ? find_loaded(headers, base, start) : (struct loaded){0};
        if (loaded.start && segment.p_memsz <= (size_t)(loaded.end - start))
            return (struct sframe_section){start, start + segment.p_memsz};
    }
    return (struct sframe_section){0};
}

static struct object_rules find_rules(const struct headers *headers, const struct dl_find_object *object)
{
    const unsigned char *header = object->dlfo_eh_frame;
    uintptr_t base = object->dlfo_link_map->l_addr;
    struct loaded loaded = header ? find_loaded(headers, base, header) : (struct loaded){0};
    struct object_rules rules = {.sframe = find_sframe(headers, base)};
    if (loaded.start)
        rules.eh_frame = (struct eh_frame_section){loaded.start, loaded.end, header};
    return rules;
}

/* ---- Objects that are never unloaded: the program, libc, and the dynamic linker ---- */

static struct permanent {
    struct object object;
    struct object_rules rules;
} permanents[3];
static _Atomic uint32_t n_permanents; /* stored with release, after the objects */
uintptr_t object_linker_start, object_linker_bytes;

static COLD void add_permanent(uintptr_t address)
{
    struct dl_find_object found;
    uint32_t n = load_relaxed(&n_permanents);
    struct permanent *p = &permanents[n];
    if (!address || _dl_find_object((void *)address, &found))
        return;
    struct headers headers;
    read_headers(&headers, &found);
    p->object = object_of(&found);
    p->object.identity = identity_by(&headers, &found);
    p->object.stays = true;
    p->rules = find_rules(&headers, &found);
    store_release(&n_permanents, n + 1);
}

static const struct permanent *find_permanent(uintptr_t address)
{
    for (uint32_t i = 0, n = load_acquire(&n_permanents); i < n; i++)
        if (address - permanents[i].object.start < permanents[i].object.bytes)
            return &permanents[i];
    return NULL;
}

/* Where the linker was executed with the program as an argument, the entry is its own. A static program has none. */
static COLD void find_linker(uintptr_t base, uintptr_t entry)
{
    const struct permanent *p = find_permanent(base ? base : entry);
    if (!p || p == find_permanent((uintptr_t)getauxval))
        return;
    object_linker_start = p->object.start;
    object_linker_bytes = p->object.bytes;
}

/* In a static program, libc allocates while it prepares _dl_find_object(), which must not be called then. Constructors run later.
 * A dynamic linker has prepared it before. */
static _Atomic bool constructors_run;

static COLD __attribute__((constructor)) void note_constructors(void)
{
    uintptr_t base = getauxval(AT_BASE), entry = getauxval(AT_ENTRY);
    store_relaxed(&constructors_run, true);
    add_permanent(entry);
    add_permanent((uintptr_t)getauxval);
    add_permanent(base);
    find_linker(base, entry);
}

COLD bool objects_can_be_found(void)
{
    return load_relaxed(&constructors_run) || getauxval(AT_BASE);
}

/* ---- Looking ---- */

COLD bool object_find_rules(uintptr_t address, struct object *object, struct object_rules *rules)
{
    const struct permanent *p = find_permanent(address);
    struct dl_find_object found;
    *object = (struct object){0};
    *rules = (struct object_rules){0};
    if (p) {
        *object = p->object;
        *rules = p->rules;
        return true;
    }
    if (_dl_find_object((void *)address, &found))
        return false;
    struct headers headers;
    read_headers(&headers, &found);
    *object = object_of(&found);
    object->identity = identity_by(&headers, &found);
    *rules = find_rules(&headers, &found);
    return true;
}

static bool find(uintptr_t address, struct object *object, bool with_identity)
{
    const struct permanent *p = find_permanent(address);
    struct dl_find_object found;
    *object = p ? p->object : (struct object){0};
    if (p || !address || !objects_can_be_found() || _dl_find_object((void *)address, &found))
        return p;
    *object = object_of(&found);
    object->identity = with_identity ? identity_of(&found) : 0;
    return true;
}

COLD bool object_find(uintptr_t address, struct object *object)
{
    return find(address, object, true);
}

COLD bool object_find_quick(uintptr_t address, struct object *object)
{
    return find(address, object, false);
}

/* ---- Describing ---- */

/* Each note is a header, a name and a content, the last two padded to 4 bytes. */
static void take_build_id(struct object_code *code, const char *notes, size_t bytes)
{
    ElfW(Nhdr) note;
    for (size_t at = 0; bytes - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        size_t name_at = at + sizeof note, content_at = name_at + round_up(note.n_namesz, 4);
        if (note.n_namesz > bytes || content_at > bytes || note.n_descsz > bytes - content_at)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && !memcmp(notes + name_at, "GNU", sizeof "GNU") &&
            note.n_descsz <= sizeof code->build_id) {
            code->build_id_bytes = note.n_descsz;
            memcpy(code->build_id, notes + content_at, note.n_descsz);
        }
        at = content_at + round_up(note.n_descsz, 4);
        if (at > bytes)
            return;
    }
}

/* Addresses of a part of an object, as if it began at 0. */
struct part {
    uintptr_t start, end, distance; /* from its place in the file */
};

static struct part part_of(const ElfW(Phdr) *segment)
{
    return (struct part){segment->p_vaddr, segment->p_vaddr + segment->p_filesz, segment->p_vaddr - segment->p_offset};
}

/* The loaded segment that has the address. Both ends are 0: none. */
static struct part find_part(const struct headers *headers, uintptr_t address)
{
    for (int i = 0; i < headers->n; i++) {
        ElfW(Phdr) segment = segment_at(headers, i);
        if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
            return part_of(&segment);
    }
    return (struct part){0};
}

/* The same with all segments of code that are as far from their places in the file. */
static struct part add_parts(struct part all, const struct headers *headers)
{
    for (int i = 0; i < headers->n && all.end; i++) {
        ElfW(Phdr) segment = segment_at(headers, i);
        struct part part = part_of(&segment);
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || part.distance != all.distance)
            continue;
        all.start = part.start < all.start ? part.start : all.start;
        all.end = part.end > all.end ? part.end : all.end;
    }
    return all;
}

/* "/proc/self/map_files/START-END" links to the file of a mapping, with its whole path. */
static char *put_hex(char *to, uint64_t value)
{
    int shift = 60;
    while (shift && !(value >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *to++ = "0123456789abcdef"[value >> shift & 15];
    return to;
}

static void find_path(uintptr_t start, uintptr_t limit, const char *name, char *path, size_t room)
{
    char link[64] = "/proc/self/map_files/", *end = put_hex(link + strlen(link), start);
    *end++ = '-';
    *put_hex(end, limit) = '\0';
    ssize_t n = readlink(link, path, room);
    if (n > 0 && (size_t)n < room)
        path[n] = '\0';
    else if (name[0] == '/' && strlen(name) < room)
        strcpy(path, name);
}

COLD void object_describe(uintptr_t address, struct object_code *code, char *path, size_t room)
{
    struct dl_find_object found;
    int saved = errno;
    *code = (struct object_code){0};
    path[0] = '\0';
    if (_dl_find_object((void *)address, &found))
        return;
    struct headers headers;
    char notes[NOTES_BYTES];
    read_headers(&headers, &found);
    for (int i = 0; i < headers.n; i++) {
        ElfW(Phdr) segment = segment_at(&headers, i);
        take_build_id(code, notes, read_notes(&headers, &segment, notes));
    }
    uintptr_t base = found.dlfo_link_map->l_addr;
    struct part part = find_part(&headers, address - base), all = add_parts(part, &headers);
    if (part.end) {
        code->start = page_of(base + all.start);
        code->limit = round_up(base + all.end, PAGE_BYTES);
        code->offset = page_of(all.start - all.distance);
        find_path(page_of(base + part.start), round_up(base + part.end, PAGE_BYTES), found.dlfo_link_map->l_name, path, room);
    }
    errno = saved;
}
