/* SPDX-License-Identifier: BSD-2-Clause */
/* Constants of the program itself, by its program headers. */
#include "base/constants.h"

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/compiler.h"

#define PARTS_MAX 8u

static struct part {
    uintptr_t start;
    size_t bytes;
} parts[PARTS_MAX];
static uint32_t n_parts;

/* Whether the segment is read-only in a program that runs. The dynamic linker makes the whole pages of PT_GNU_RELRO so. */
static bool is_read_only(const ElfW(Phdr) *segment, struct part *part)
{
    uintptr_t end = part->start + segment->p_memsz;
    part->bytes = segment->p_memsz;
    if (segment->p_type == PT_LOAD)
        return !(segment->p_flags & PF_W);
    end &= ~(uintptr_t)(getauxval(AT_PAGESZ) - 1);
    part->bytes = end > part->start ? end - part->start : 0;
    return segment->p_type == PT_GNU_RELRO;
}

/* Without PT_PHDR, it is not known where the program is loaded, so there are no parts. */
COLD void constants_boot(void)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR); /* NOLINT */
    size_t n = headers ? getauxval(AT_PHNUM) : 0, own = 0;
    while (own < n && headers[own].p_type != PT_PHDR)
        own++;
    for (size_t i = 0; own < n && i < n && n_parts < PARTS_MAX; i++) {
        parts[n_parts].start = (uintptr_t)headers - headers[own].p_vaddr + headers[i].p_vaddr;
        n_parts += is_read_only(&headers[i], &parts[n_parts]);
    }
}

bool constants_have(const void *p, size_t bytes)
{
    for (uint32_t i = 0; i < n_parts; i++) {
        uintptr_t at = (uintptr_t)p - parts[i].start;
        if (at < parts[i].bytes && bytes <= parts[i].bytes - at)
            return true;
    }
    return false;
}

bool constants_have_text(const char *text)
{
    return text && constants_have(text, 1) && constants_have(text, strlen(text) + 1);
}
