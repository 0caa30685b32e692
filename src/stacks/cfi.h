/* SPDX-License-Identifier: BSD-2-Clause */
/* Call frame instructions of DWARF: the programs that the entries of .eh_frame have. eh_frame.c finds an entry, and cfi.c runs
 * its program up to an instruction. */
#ifndef JESPAN_CFI_H
#define JESPAN_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/rule.h"

/* ---- Bytes ---- */

/* Reads past the end return 0 and set `bad`. */
struct cfi_bytes {
    const unsigned char *at, *end;
    bool bad;
};

uint64_t cfi_take(struct cfi_bytes *b, size_t n);
void cfi_skip(struct cfi_bytes *b, uint64_t n);
uint64_t cfi_take_uleb(struct cfi_bytes *b);
int64_t cfi_take_sleb(struct cfi_bytes *b);
uint64_t cfi_take_pointer(struct cfi_bytes *b, unsigned encoding);
void cfi_skip_block(struct cfi_bytes *b);

/* ---- The rows of the program ---- */

#define CFI_MAX_REMEMBERED 8

enum cfi_place { SAME, AT_CFA, AT_BP, UNDEFINED, ODD };
struct cfi_saved {
    enum cfi_place place;
    int64_t offset;
};
struct cfi_row {
    enum { CFA_REGISTER, CFA_DEREF_BP, CFA_ODD } cfa_kind;
    uint64_t cfa_register;
    int64_t cfa_offset;
    struct cfi_saved bp, ra;
};

struct cfi_machine {
    struct cfi_row now, initial, remembered[CFI_MAX_REMEMBERED];
    unsigned n_remembered;
    uint64_t code_align;
    int64_t data_align;
    uint64_t pc, wanted;
    unsigned encoding;
    bool in_cie; /* the initial instructions */
};

/* Runs the program up to the wanted instruction. */
void cfi_run(struct cfi_machine *m, struct cfi_bytes *b);

#endif
