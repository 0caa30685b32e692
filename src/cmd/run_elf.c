/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads ELF headers of both classes. */
#include "run_elf.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
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
