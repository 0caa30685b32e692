/* SPDX-License-Identifier: BSD-2-Clause */
/* What the loader looks at in an ELF file before it preloads anything. */
#ifndef JESPAN_CMD_RUN_ELF_H
#define JESPAN_CMD_RUN_ELF_H

#include <stdbool.h>
#include <stdint.h>

struct run_elf {
    uint8_t elf_class; /* ELFCLASS32 or ELFCLASS64 */
    uint16_t machine;
    bool is_dynamic; /* names a loader */
};

/* Whether `path` is an ELF file of this machine's byte order that could be read. */
bool run_elf_read(struct run_elf *elf, const char *path);

/* Whether `path` is a shared library for this machine that has the symbol for others. */
bool run_elf_exports(const char *path, const char *symbol);

#endif
