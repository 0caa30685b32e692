/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of a binary's symbol table, by address. libdwfl finds the table, and searches it from end to end for each
 * address, so it is sorted here. */
#include "symbols_parts.h"

#include <elf.h>
#include <stdlib.h>

/* Functions before other symbols, names that others may use before local ones, as addr2line(1) prefers them. */
static int rank_of(const GElf_Sym *symbol)
{
    int type = GELF_ST_TYPE(symbol->st_info);
    return (type != STT_NOTYPE) * 4 + (symbol->st_size != 0) * 2 + (GELF_ST_BIND(symbol->st_info) != STB_LOCAL);
}

static int compare(const void *a, const void *b)
{
    const struct symbols_entry *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : y->rank - x->rank;
}

static bool read_entry(struct symbols_entry *entry, const struct symbols_file *file, int i)
{
    GElf_Sym symbol;
    GElf_Addr address;
    const char *name = dwfl_module_getsym_info(file->module, i, &symbol, &address, NULL, NULL, NULL);
    int type = GELF_ST_TYPE(symbol.st_info);
    if (!name || name[0] == '\0' || symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS)
        return false;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return false;
    *entry = (struct symbols_entry){address, address + symbol.st_size, name, rank_of(&symbol)};
    return true;
}

/* Keeps one of several entries that begin at the same address. An entry without a size ends where the next one begins. */
static void remove_doubles(struct symbols_table *table)
{
    size_t n = 0;
    qsort(table->entries, table->n, sizeof *table->entries, compare);
    for (size_t i = 0; i < table->n; i++)
        if (n == 0 || table->entries[i].start != table->entries[n - 1].start)
            table->entries[n++] = table->entries[i];
    for (size_t i = 0; i + 1 < n; i++)
        if (table->entries[i].end == table->entries[i].start)
            table->entries[i].end = table->entries[i + 1].start;
    table->n = n;
}

void symbols_table_read(struct symbols_table *table, const struct symbols_file *file)
{
    int n = dwfl_module_getsymtab(file->module);
    table->n = 0;
    table->entries = n <= 0 ? NULL : calloc((size_t)n, sizeof *table->entries);
    if (!table->entries)
        return;
    for (int i = 1; i < n; i++)
        table->n += read_entry(&table->entries[table->n], file, i);
    if (table->n > 0)
        remove_doubles(table);
}

/* Functions may lie in each other. The entry before may be short, and the one before that may be long. */
#define LOOK_BACK 16

const char *symbols_table_find(const struct symbols_table *table, uint64_t address)
{
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--)
        if (address < table->entries[i - 1].end)
            return table->entries[i - 1].name;
    return NULL;
}
