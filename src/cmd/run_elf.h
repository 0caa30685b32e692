/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the parts of an ELF file that decide whether the loader can preload a library. */
#ifndef JESPAN_CMD_RUN_ELF_H
#define JESPAN_CMD_RUN_ELF_H

#include <stdbool.h>
#include <stdint.h>

struct run_elf {
    uint8_t elf_class;  /* ELFCLASS32 or ELFCLASS64 */
    uint8_t byte_order; /* ELFDATA2LSB or ELFDATA2MSB */
    uint16_t machine;   /* EM_X86_64, … */
    bool is_dynamic;    /* the file names a loader, or is one */
};

/* Returns false if `path` cannot be read or is not an ELF file. */
bool run_elf_read(struct run_elf *elf, const char *path);

/* The file of this command. /proc may not be mounted; then it is the file as it was executed. */
const char *run_elf_own(void);

/* Returns true if both files are for the same kind of machine. */
bool run_elf_same_machine(const struct run_elf *a, const struct run_elf *b);

/* Returns true if `path` is a shared library for this machine that defines `symbol` for other programs. Reads the dynamic
 * segment, as the loader does: section headers may be missing. */
bool run_elf_exports(const char *path, const char *symbol);

#endif
