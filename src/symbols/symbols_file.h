/* SPDX-License-Identifier: BSD-2-Clause */
/* A binary with its debug file, in the child that reads it. */
#ifndef JESPAN_SYMBOLS_FILE_H
#define JESPAN_SYMBOLS_FILE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols.h"

struct symbols_file {
    Dwfl_Module *module;
    Elf *elf;
    uint64_t bias;           /* an address of the binary + bias = an address of libdwfl's */
    bool only_debug;         /* it is a file of debug information: its code and offsets are gone */
    uint64_t first_address;  /* of the first segment that is loaded */
};

/* Returns false, with the reason, if there is no such binary. */
bool symbols_file_open(struct symbols_file *file, const char *path, const char *build_id, char reason[SYMBOLS_REASON_BYTES]);

/* The address of a byte in the file. */
uint64_t symbols_file_address(const struct symbols_file *file, uint64_t offset);

#endif
