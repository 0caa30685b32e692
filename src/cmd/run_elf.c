/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads ELF headers of both classes. */
#include "run_elf.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the segment headers are; their first field, the type, has four bytes in both classes. */
struct segments {
    uint64_t at;
    uint16_t n, bytes_each;
};

static bool read_at(int fd, void *to, size_t bytes, uint64_t at)
{
    return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

static bool read_header(struct run_elf *elf, struct segments *segments, int fd)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf32_Ehdr narrow;
        Elf64_Ehdr wide;
    } header;
    memset(&header, 0, sizeof header);
    if (!read_at(fd, &header.narrow, sizeof header.narrow, 0) || memcmp(header.ident, ELFMAG, SELFMAG) != 0)
        return false;
    elf->elf_class = header.ident[EI_CLASS];
    elf->machine = header.narrow.e_machine; /* at the same place in both */
    if (elf->elf_class == ELFCLASS32)
        *segments = (struct segments){header.narrow.e_phoff, header.narrow.e_phnum, header.narrow.e_phentsize};
    else if (read_at(fd, &header.wide, sizeof header.wide, 0))
        *segments = (struct segments){header.wide.e_phoff, header.wide.e_phnum, header.wide.e_phentsize};
    return true;
}

bool run_elf_read(struct run_elf *elf, const char *path)
{
    struct segments segments = {0, 0, 0};
    memset(elf, 0, sizeof *elf);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is_elf = read_header(elf, &segments, fd);
    for (uint32_t i = 0; is_elf && i < segments.n; i++) {
        uint32_t type;
        if (read_at(fd, &type, sizeof type, segments.at + (uint64_t)i * segments.bytes_each) && type == PT_INTERP)
            elf->is_dynamic = true;
    }
    close(fd);
    return is_elf;
}

/* Whether [at, at + bytes) is in the file. */
static bool is_within(uint64_t file_bytes, uint64_t at, uint64_t bytes)
{
    return at <= file_bytes && bytes <= file_bytes - at;
}

static bool is_exported(const char *file, uint64_t file_bytes, const ElfW(Shdr) * table, const ElfW(Shdr) * names, const char *symbol)
{
    size_t n = strlen(symbol) + 1;
    if (!is_within(file_bytes, table->sh_offset, table->sh_size) || !is_within(file_bytes, names->sh_offset, names->sh_size))
        return false;
    for (uint64_t at = 0; is_within(table->sh_size, at, sizeof(ElfW(Sym))); at += sizeof(ElfW(Sym))) {
        ElfW(Sym) s;
        memcpy(&s, file + table->sh_offset + at, sizeof s);
        if (s.st_shndx != SHN_UNDEF && is_within(names->sh_size, s.st_name, n)
            && memcmp(file + names->sh_offset + s.st_name, symbol, n) == 0)
            return true;
    }
    return false;
}

static bool finds_export(const char *file, uint64_t file_bytes, const char *symbol)
{
    const ElfW(Ehdr) *header = (const void *)file;
    if (header->e_type != ET_DYN || header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shoff % sizeof(ElfW(Addr)) != 0
        || !is_within(file_bytes, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr))))
        return false;
    const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
    for (uint32_t i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < header->e_shnum
            && is_exported(file, file_bytes, &sections[i], &sections[sections[i].sh_link], symbol))
            return true;
    return false;
}

bool run_elf_exports(const char *path, const char *symbol)
{
    struct run_elf elf, own;
    struct stat status;
    if (!run_elf_read(&elf, path) || !run_elf_read(&own, "/proc/self/exe") || elf.elf_class != own.elf_class
        || elf.machine != own.machine)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = false;
    if (fstat(fd, &status) == 0 && (size_t)status.st_size >= sizeof(ElfW(Ehdr))) {
        size_t bytes = (size_t)status.st_size;
        const char *file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            found = finds_export(file, bytes, symbol);
            munmap((void *)(uintptr_t)file, bytes);
        }
    }
    close(fd);
    return found;
}
