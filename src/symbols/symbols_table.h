/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of a binary's symbol table, by address. */
#ifndef JESPAN_SYMBOLS_TABLE_H
#define JESPAN_SYMBOLS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "symbols_file.h"

struct symbols_entry {
    uint64_t start, end; /* addresses of libdwfl's */
    const char *name;
    int rank;            /* of several with the same start the highest is taken */
};

struct symbols_table {
    struct symbols_entry *entries; /* by start */
    size_t n;
};

/* Reads .symtab of the binary or its debug file, else .dynsym. Without memory the table is empty. */
void symbols_table_read(struct symbols_table *table, const struct symbols_file *file);

/* The name of the function at an address, or NULL. */
const char *symbols_table_find(const struct symbols_table *table, uint64_t address);

#endif
