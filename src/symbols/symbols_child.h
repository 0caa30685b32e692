/* SPDX-License-Identifier: BSD-2-Clause */
/* The records that the child, which reads a binary, sends to its parent: each is a head and its texts. */
#ifndef JESPAN_SYMBOLS_CHILD_H
#define JESPAN_SYMBOLS_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "symbols.h"

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

/* Reads the binary and writes records to `fd`. */
void symbols_child_run(const struct symbols_wanted *wanted, bool with_dwarf, int fd);

#endif
