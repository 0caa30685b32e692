/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions, inlined functions and lines from DWARF. */
#ifndef JESPAN_SYMBOLS_DWARF_H
#define JESPAN_SYMBOLS_DWARF_H

#include <stddef.h>
#include <stdint.h>

#include "symbols_file.h"

/* A function at an address as DWARF describes it. Missing texts are NULL. They are libdw's. */
struct symbols_function {
    const char *linkage_name, *name, *file;
    int line, start_line;
};

struct symbols_place {
    uint64_t address; /* of libdwfl's */
    size_t i;         /* of the wanted offset */
    struct symbols_function *functions; /* the innermost first; NULL until the place is found */
    size_t n_functions;
};

/* Finds places, which are sorted by address. */
void symbols_dwarf_find(const struct symbols_file *file, struct symbols_place *places, size_t n);

#endif
