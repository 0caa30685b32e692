/* SPDX-License-Identifier: BSD-2-Clause */
/* Where functions begin, from .eh_frame, which stripped binaries have too. */
#include "symbols_parts.h"

#include <elf.h>

#include "stacks/eh_frame.h"

/* A file of debug information does not have the bytes. */
static bool find_segment(const struct symbols_file *file, uint32_t type, uint64_t offset, GElf_Phdr *segment)
{
    size_t n;
    if (elf_getphdrnum(file->elf, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (gelf_getphdr(file->elf, (int)i, segment) && segment->p_type == type
            && (type != PT_LOAD || (offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz)))
            return true;
    return false;
}

bool symbols_start_find(const struct symbols_file *file, uint64_t address, uint64_t *start)
{
    GElf_Phdr header, segment;
    size_t bytes = 0;
    uintptr_t found;
    const unsigned char *all = file->only_debug ? NULL : (const unsigned char *)elf_rawfile(file->elf, &bytes);
    if (!all || !find_segment(file, PT_GNU_EH_FRAME, 0, &header) || !find_segment(file, PT_LOAD, header.p_offset, &segment)
        || segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset)
        return false;
    const struct eh_frame_section section = {all + segment.p_offset, all + segment.p_offset + segment.p_filesz, all + header.p_offset};
    uint64_t at = (uintptr_t)section.header - header.p_vaddr; /* the place of an address here, if all segments lay as in the process */
    if (!eh_frame_start(&section, (uintptr_t)(at + address), &found))
        return false;
    *start = found - at;
    return *start <= address;
}
