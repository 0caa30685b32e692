/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads ELF files with libelf, which checks every offset against the size of the file. */
#include "run.h"

#include <fcntl.h>
#include <gelf.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "snapshot/books.h"

struct file {
    int fd;
    Elf *elf;
    GElf_Ehdr header;
    size_t n_segments;
};

static void close_file(struct file *file)
{
    elf_end(file->elf);
    close(file->fd);
}

/* A script may name a FIFO as its interpreter. O_NONBLOCK keeps open() from waiting for a writer. */
static bool open_file(struct file *file, const char *path)
{
    elf_version(EV_CURRENT);
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0)
        return false;
    file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
    if (elf_kind(file->elf) == ELF_K_ELF && gelf_getehdr(file->elf, &file->header)
        && elf_getphdrnum(file->elf, &file->n_segments) == 0)
        return true;
    close_file(file);
    return false;
}

static bool find_segment(const struct file *file, uint32_t type, GElf_Phdr *segment)
{
    for (size_t i = 0; i < file->n_segments; i++)
        if (gelf_getphdr(file->elf, (int)i, segment) && segment->p_type == type)
            return true;
    return false;
}

/* The entries of the dynamic segment, or NULL. */
static Elf_Data *find_dynamic(const struct file *file)
{
    GElf_Phdr segment;
    bool found = find_segment(file, PT_DYNAMIC, &segment);
    return found ? elf_getdata_rawchunk(file->elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_DYN) : NULL;
}

/* The loader itself can be run with a program as its argument. It names no loader, but has a name as a shared library. */
static bool has_soname(const struct file *file)
{
    GElf_Dyn entry;
    Elf_Data *entries = find_dynamic(file);
    for (int i = 0; gelf_getdyn(entries, i, &entry) && entry.d_tag != DT_NULL; i++)
        if (entry.d_tag == DT_SONAME)
            return true;
    return false;
}

/* A program with libjespan.a in it has the note by which its books are found. */
static bool has_books(const struct file *file)
{
    GElf_Phdr segment;
    for (size_t i = 0; i < file->n_segments; i++) {
        if (!gelf_getphdr(file->elf, (int)i, &segment) || segment.p_type != PT_NOTE)
            continue;
        Elf_Data *notes = elf_getdata_rawchunk(file->elf, (int64_t)segment.p_offset, segment.p_filesz,
                                               segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        GElf_Nhdr note;
        size_t name, content;
        for (size_t at = 0; notes && (at = gelf_getnote(notes, at, &note, &name, &content)) > 0;)
            if (note.n_type == BOOKS_NOTE_TYPE && note.n_namesz == sizeof BOOKS_NOTE_NAME
                && memcmp((const char *)notes->d_buf + name, BOOKS_NOTE_NAME, sizeof BOOKS_NOTE_NAME) == 0)
                return true;
    }
    return false;
}

/* Whether the loader is that of musl, which preloads libraries of glibc, and then does not start the program. */
static bool is_of_musl(const struct file *file)
{
    static const char musl[] = "/ld-musl-";
    GElf_Phdr segment;
    if (!find_segment(file, PT_INTERP, &segment))
        return false;
    Elf_Data *loader = elf_getdata_rawchunk(file->elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_BYTE);
    return loader && loader->d_buf && memmem(loader->d_buf, loader->d_size, musl, sizeof musl - 1);
}

static void read_kind(const struct file *file, struct run_elf *elf)
{
    GElf_Phdr segment;
    elf->elf_class = file->header.e_ident[EI_CLASS];
    elf->byte_order = file->header.e_ident[EI_DATA];
    elf->machine = file->header.e_machine;
    elf->is_dynamic = find_segment(file, PT_INTERP, &segment) || has_soname(file);
    elf->is_of_musl = is_of_musl(file);
    elf->has_jespan = has_books(file);
}

bool run_elf_read(struct run_elf *elf, const char *path)
{
    struct file file;
    if (!open_file(&file, path))
        return false;
    read_kind(&file, elf);
    close_file(&file);
    return true;
}

bool run_elf_same_machine(const struct run_elf *a, const struct run_elf *b)
{
    return a->elf_class == b->elf_class && a->byte_order == b->byte_order && a->machine == b->machine;
}

/* The tables that the dynamic segment names. A missing table is NULL. */
struct tables {
    Elf_Data *symbols, *strings, *hash, *gnu_hash;
};

/* Reads from an address of the loaded library up to the end of its segment: the dynamic segment does not say how long the
 * tables of symbols and hashes are. */
static Elf_Data *read_at(const struct file *file, uint64_t address, Elf_Type type)
{
    size_t each = gelf_fsize(file->elf, type, 1, EV_CURRENT);
    for (size_t i = 0; i < file->n_segments; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(file->elf, (int)i, &segment) || segment.p_type != PT_LOAD || address < segment.p_vaddr
            || address - segment.p_vaddr >= segment.p_filesz)
            continue;
        uint64_t into = address - segment.p_vaddr, bytes = segment.p_filesz - into;
        return elf_getdata_rawchunk(file->elf, (int64_t)(segment.p_offset + into), bytes - bytes % each, type);
    }
    return NULL;
}

static void read_tables(const struct file *file, struct tables *tables)
{
    GElf_Dyn entry;
    Elf_Data *entries = find_dynamic(file);
    memset(tables, 0, sizeof *tables);
    for (int i = 0; gelf_getdyn(entries, i, &entry) && entry.d_tag != DT_NULL; i++) {
        if (entry.d_tag == DT_SYMTAB)
            tables->symbols = read_at(file, entry.d_un.d_ptr, ELF_T_SYM);
        else if (entry.d_tag == DT_STRTAB)
            tables->strings = read_at(file, entry.d_un.d_ptr, ELF_T_BYTE);
        else if (entry.d_tag == DT_HASH)
            tables->hash = read_at(file, entry.d_un.d_ptr, ELF_T_WORD);
        else if (entry.d_tag == DT_GNU_HASH)
            tables->gnu_hash = read_at(file, entry.d_un.d_ptr, ELF_T_WORD);
    }
}

/* Returns 0 beyond the end of the table. */
static uint32_t word(const Elf_Data *table, uint64_t i)
{
    return i < table->d_size / sizeof(uint32_t) ? ((const uint32_t *)table->d_buf)[i] : 0;
}

static bool is_definition(const struct tables *tables, uint32_t i, const char *name)
{
    GElf_Sym symbol;
    size_t bytes = strlen(name) + 1;
    return gelf_getsym(tables->symbols, (int)i, &symbol) && symbol.st_shndx != SHN_UNDEF
        && symbol.st_name < tables->strings->d_size && bytes <= tables->strings->d_size - symbol.st_name
        && memcmp((const char *)tables->strings->d_buf + symbol.st_name, name, bytes) == 0;
}

/* DT_HASH: the numbers of buckets and of symbols, the first symbol of each bucket, and the symbol that follows each symbol in
 * its bucket. A damaged file could chain symbols in a circle. */
static bool hash_finds(const struct tables *tables, const char *name)
{
    uint32_t n_buckets = word(tables->hash, 0);
    uint32_t i = n_buckets == 0 ? 0 : word(tables->hash, 2 + elf_hash(name) % n_buckets);
    for (uint64_t n = tables->hash->d_size / sizeof(uint32_t); i != 0 && n > 0; n--, i = word(tables->hash, 2 + (uint64_t)n_buckets + i))
        if (is_definition(tables, i, name))
            return true;
    return false;
}

/* DT_GNU_HASH: the number of buckets, the number of the first symbol in the table, the number of words of a Bloom filter, a
 * shift, the filter, the first symbol of each bucket, and the hash of each symbol. Symbols of a bucket follow each other. The
 * lowest bit of a hash says that it is the last of its bucket. */
static bool gnu_hash_finds(const struct file *file, const struct tables *tables, const char *name)
{
    const Elf_Data *table = tables->gnu_hash;
    uint32_t n_buckets = word(table, 0), first = word(table, 1), hash = (uint32_t)elf_gnu_hash(name);
    uint64_t buckets = 4 + word(table, 2) * (uint64_t)(gelf_getclass(file->elf) == ELFCLASS64 ? 2 : 1);
    uint64_t hashes = buckets + n_buckets, n_words = table->d_size / sizeof(uint32_t);
    uint32_t i = n_buckets == 0 ? 0 : word(table, buckets + hash % n_buckets);
    for (; i >= first && i != 0 && hashes + (i - first) < n_words; i++) {
        uint32_t other = word(table, hashes + (i - first));
        if ((other | 1) == (hash | 1) && is_definition(tables, i, name))
            return true;
        if ((other & 1) != 0)
            return false;
    }
    return false;
}

static bool exports(const struct file *file, const char *name)
{
    struct tables tables;
    if (file->header.e_type != ET_DYN)
        return false;
    read_tables(file, &tables);
    if (!tables.symbols || !tables.strings)
        return false;
    return tables.gnu_hash ? gnu_hash_finds(file, &tables, name) : tables.hash && hash_finds(&tables, name);
}

const char *run_elf_own(void)
{
    static const char link[] = "/proc/self/exe";
    return access(link, F_OK) == 0 ? link : (const char *)getauxval(AT_EXECFN);
}

/* The header of this program in memory. Its file may be unreadable for the user. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

bool run_elf_exports(const char *path, const char *symbol)
{
    const struct run_elf own = {.elf_class = __ehdr_start.e_ident[EI_CLASS], .byte_order = __ehdr_start.e_ident[EI_DATA],
                                .machine = __ehdr_start.e_machine};
    struct run_elf elf;
    struct file file;
    if (!open_file(&file, path))
        return false;
    read_kind(&file, &elf);
    bool found = run_elf_same_machine(&elf, &own) && exports(&file, symbol);
    close_file(&file);
    return found;
}
