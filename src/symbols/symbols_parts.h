/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the child that reads a binary: symbols_file.c, symbols_dwarf.c, symbols_table.c, symbols_starts.c,
 * symbols_map.c, symbols_child.c. */
#ifndef JESPAN_SYMBOLS_PARTS_H
#define JESPAN_SYMBOLS_PARTS_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stacks/eh_frame.h"
#include "symbols.h"

struct symbols_file {
    Dwfl_Module *module;
    Elf *elf;
    uint64_t bias;           /* an address of the binary + bias = an address of libdwfl's */
    bool only_debug;         /* it is a file of debug information: its code and offsets are gone */
    uint64_t first_address;  /* of the first byte, if all bytes have the distance of the first segment (only_debug: of code) */
};

/* Returns false, with the reason, if there is no such binary. */
bool symbols_file_open(struct symbols_file *file, const char *path, const char *build_id, char reason[SYMBOLS_REASON_BYTES]);

/* Opens a file, no device and no FIFO. Returns -1, or -2 where it is no file, with the reason. */
int symbols_open_regular(const char *path, const char **reason);

/* The address of a byte in the file. */
uint64_t symbols_file_address(const struct symbols_file *file, uint64_t offset);

/* The next segment of that type which has those flags, from the one at *at on. Returns false, where there is none. */
bool symbols_file_segment(const struct symbols_file *file, uint32_t type, uint32_t flags, GElf_Phdr *segment, size_t *at);

/* ---- symbols_dwarf.c: functions, inlined functions and lines from DWARF ---- */

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

/* ---- symbols_table.c: the functions of a binary's symbol table, by address ---- */

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

/* ---- symbols_starts.c: where functions begin, from .eh_frame ---- */

struct symbols_starts {
    struct eh_frame_section section; /* `header` NULL: the binary does not tell */
    uint64_t distance; /* an address of the binary + distance = its place here, if all segments lay as in the process */
};

void symbols_starts_read(struct symbols_starts *starts, const struct symbols_file *file);

/* Sets where the function at an address of the binary begins. Returns false if the binary does not tell. */
bool symbols_starts_find(const struct symbols_starts *starts, uint64_t address, uint64_t *start);

/* ---- symbols_map.c: functions of generated code from a perf map ---- */

/* Writes records of the names that it has. Returns false, with the reason, if it cannot be read, or is another process's. */
bool symbols_map_send(FILE *to, const struct symbols_wanted *wanted, char reason[SYMBOLS_REASON_BYTES]);

/* ---- symbols_child.c: the records that the child sends to its parent. Each is a head and its texts ---- */

/* A place, followed by its frames. If `n_frames` is SYMBOLS_REASON, a reason of `address` bytes follows. */
struct symbols_record {
    uint64_t i, address;
    uint32_t n_frames;
};

#define SYMBOLS_REASON UINT32_MAX

/* A frame, followed by the bytes of its three texts. */
struct symbols_record_frame {
    uint32_t line, start_line, name_bytes, system_bytes, file_bytes;
};

/* Writes such a frame. */
void symbols_send_frame(FILE *to, const struct symbols_frame *frame);

/* Reads the binary and writes records to `fd`. */
void symbols_child_run(const struct symbols_wanted *wanted, bool with_dwarf, int fd);

#endif
