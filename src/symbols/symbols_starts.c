/* SPDX-License-Identifier: BSD-2-Clause */
/* Where functions begin, from .eh_frame, which stripped binaries have too. */
#include "symbols_parts.h"

#include <elf.h>

/* A file of debug information does not have the bytes. */
void symbols_starts_read(struct symbols_starts *starts, const struct symbols_file *file)
{
    GElf_Phdr header, segment;
    size_t bytes = 0, at = 0;
    const unsigned char *all = file->only_debug ? NULL : (const unsigned char *)elf_rawfile(file->elf, &bytes);
    *starts = (struct symbols_starts){0};
    if (!all || !symbols_file_segment(file, PT_GNU_EH_FRAME, 0, &header, &at))
        return;
    for (at = 0; symbols_file_segment(file, PT_LOAD, 0, &segment, &at); at++)
        if (header.p_offset >= segment.p_offset && header.p_offset - segment.p_offset < segment.p_filesz
            && segment.p_offset <= bytes && segment.p_filesz <= bytes - segment.p_offset) {
            const unsigned char *begin = all + segment.p_offset;
            starts->section = (struct eh_frame_section){begin, begin + segment.p_filesz, all + header.p_offset};
            starts->distance = (uintptr_t)starts->section.header - header.p_vaddr;
            return;
        }
}

bool symbols_starts_find(const struct symbols_starts *starts, uint64_t address, uint64_t *start)
{
    uintptr_t found;
    if (!starts->section.header || !eh_frame_start(&starts->section, (uintptr_t)(starts->distance + address), &found))
        return false;
    *start = found - starts->distance;
    return *start <= address;
}
