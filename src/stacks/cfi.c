/* SPDX-License-Identifier: BSD-2-Clause */
/* Call frame instructions of DWARF. */
#include "stacks/cfi.h"

#include <string.h>

#define MAX_INSTRUCTIONS 4096 /* a function has a few tens */

/* ---- Bytes ---- */

uint64_t cfi_take(struct cfi_bytes *b, size_t n)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < n) {
        b->bad = true;
        b->at = b->end;
        return 0;
    }
    memcpy(&value, b->at, n);
    b->at += n;
    return value;
}

void cfi_skip(struct cfi_bytes *b, uint64_t n)
{
    if ((uint64_t)(b->end - b->at) < n) {
        b->bad = true;
        b->at = b->end;
    } else {
        b->at += n;
    }
}

uint64_t cfi_take_uleb(struct cfi_bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = cfi_take(b, 1);
        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    b->bad = true;
    return 0;
}

int64_t cfi_take_sleb(struct cfi_bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = cfi_take(b, 1);
        value |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return (int64_t)(byte & 0x40 && shift < 64 ? value | ~(uint64_t)0 << shift : value);
    }
    b->bad = true;
    return 0;
}

/* A pointer by its encoding (DW_EH_PE_*): absolute, or relative to where it is. */
uint64_t cfi_take_pointer(struct cfi_bytes *b, unsigned encoding)
{
    uint64_t base = (encoding & 0x70) == 0x10 ? (uintptr_t)b->at : 0;
    if (encoding & 0x80 || ((encoding & 0x70) && (encoding & 0x70) != 0x10))
        b->bad = true;
    switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c:
        return base + cfi_take(b, 8);
    case 0x02:
        return base + cfi_take(b, 2);
    case 0x03:
        return base + cfi_take(b, 4);
    case 0x0a:
        return base + (uint64_t)(int64_t)(int16_t)cfi_take(b, 2);
    case 0x0b:
        return base + (uint64_t)(int64_t)(int32_t)cfi_take(b, 4);
    default:
        b->bad = true;
        return 0;
    }
}

/* ---- The rows of the program ---- */

static void set_saved(struct cfi_machine *m, uint64_t reg, enum cfi_place place, int64_t offset)
{
    struct cfi_saved *saved = reg == REGISTER_BP ? &m->now.bp : reg == REGISTER_RA ? &m->now.ra : NULL;
    if (saved)
        *saved = (struct cfi_saved){place, offset};
}

static void restore(struct cfi_machine *m, uint64_t reg)
{
    if (reg == REGISTER_BP)
        m->now.bp = m->initial.bp;
    else if (reg == REGISTER_RA)
        m->now.ra = m->initial.ra;
}

/* Takes an expression of the form "frame pointer + offset", perhaps with a dereference. */
static bool take_bp_expression(struct cfi_bytes *b, bool dereferenced, int64_t *offset)
{
    uint64_t length = cfi_take_uleb(b);
    if (length > (uint64_t)(b->end - b->at)) {
        b->bad = true;
        return false;
    }
    struct cfi_bytes e = {b->at, b->at + length, false};
    cfi_skip(b, length);
    bool is_bp = cfi_take(&e, 1) == 0x70 + REGISTER_BP; /* DW_OP_breg6 */
    *offset = cfi_take_sleb(&e);
    if (dereferenced)
        is_bp &= cfi_take(&e, 1) == 0x06; /* DW_OP_deref */
    return is_bp && !e.bad && e.at == e.end;
}

static void set_cfa(struct cfi_machine *m, uint64_t reg, int64_t offset)
{
    m->now.cfa_kind = CFA_REGISTER;
    m->now.cfa_register = reg;
    m->now.cfa_offset = offset;
}

static void set_cfa_expression(struct cfi_machine *m, struct cfi_bytes *b)
{
    int64_t offset;
    m->now.cfa_kind = take_bp_expression(b, true, &offset) ? CFA_DEREF_BP : CFA_ODD;
    m->now.cfa_offset = offset;
}

static void set_saved_expression(struct cfi_machine *m, struct cfi_bytes *b)
{
    uint64_t reg = cfi_take_uleb(b);
    int64_t offset;
    bool is_bp = take_bp_expression(b, false, &offset);
    set_saved(m, reg, is_bp ? AT_BP : ODD, offset);
}

static void remember(struct cfi_machine *m, struct cfi_bytes *b)
{
    if (m->n_remembered == CFI_MAX_REMEMBERED)
        b->bad = true;
    else
        m->remembered[m->n_remembered++] = m->now;
}

static void recall(struct cfi_machine *m, struct cfi_bytes *b)
{
    if (!m->n_remembered)
        b->bad = true;
    else
        m->now = m->remembered[--m->n_remembered];
}

void cfi_skip_block(struct cfi_bytes *b)
{
    cfi_skip(b, cfi_take_uleb(b));
}

/* ---- Instructions ---- */

/* The effect of an instruction on the register that it names. */
enum action {
    NONE,
    ADVANCE,          /* goes to a later address */
    SAVE_AT_CFA,      /* the register is saved at the CFA plus an offset */
    SAVE_ODD,         /* the register is saved in a way that a walk does not follow */
    SAVE_UNDEFINED,
    SAVE_SAME,
    RESTORE,          /* the register gets the rule that it has at the function's begin */
    SET_CFA,          /* the CFA is the register plus an offset */
    SET_CFA_REGISTER, /* the CFA is another register plus the same offset */
    SET_CFA_OFFSET,   /* the CFA is the same register plus another offset */
};

/* The operands that follow the code of an instruction, in this order. */
struct operands {
    unsigned advance_bytes;
    bool reg;
    enum { NO_NUMBER, UNSIGNED, UNSIGNED_ALIGNED, SIGNED_ALIGNED } number; /* aligned: in units of data_align */
    bool block;
};

/* Instructions of DWARF (DW_CFA_*) by their code. A row without `is_known` is no instruction. Those with an expression, a pointer
 * or a stack of rows are in run_special(). */
static const struct instruction {
    bool is_known;
    enum action action;
    struct operands operands;
} instructions[] = {
    [0x00] = {true, NONE, {0}},                                                      /* nop */
    [0x02] = {true, ADVANCE, {.advance_bytes = 1}},                                  /* advance_loc1 */
    [0x03] = {true, ADVANCE, {.advance_bytes = 2}},                                  /* advance_loc2 */
    [0x04] = {true, ADVANCE, {.advance_bytes = 4}},                                  /* advance_loc4 */
    [0x05] = {true, SAVE_AT_CFA, {.reg = true, .number = UNSIGNED_ALIGNED}},         /* offset_extended */
    [0x06] = {true, RESTORE, {.reg = true}},                                         /* restore_extended */
    [0x07] = {true, SAVE_UNDEFINED, {.reg = true}},                                  /* undefined */
    [0x08] = {true, SAVE_SAME, {.reg = true}},                                       /* same_value */
    [0x09] = {true, SAVE_ODD, {.reg = true, .number = UNSIGNED}},                    /* register: it is in another one */
    [0x0c] = {true, SET_CFA, {.reg = true, .number = UNSIGNED}},                     /* def_cfa */
    [0x0d] = {true, SET_CFA_REGISTER, {.reg = true}},                                /* def_cfa_register */
    [0x0e] = {true, SET_CFA_OFFSET, {.number = UNSIGNED}},                           /* def_cfa_offset */
    [0x11] = {true, SAVE_AT_CFA, {.reg = true, .number = SIGNED_ALIGNED}},           /* offset_extended_sf */
    [0x12] = {true, SET_CFA, {.reg = true, .number = SIGNED_ALIGNED}},               /* def_cfa_sf */
    [0x13] = {true, SET_CFA_OFFSET, {.number = SIGNED_ALIGNED}},                     /* def_cfa_offset_sf */
    [0x14] = {true, SAVE_ODD, {.reg = true, .number = UNSIGNED}},                    /* val_offset: the value, no place */
    [0x15] = {true, SAVE_ODD, {.reg = true, .number = UNSIGNED}},                    /* val_offset_sf */
    [0x16] = {true, SAVE_ODD, {.reg = true, .block = true}},                         /* val_expression */
    [0x2e] = {true, NONE, {.number = UNSIGNED}},                                     /* GNU_args_size */
};

static int64_t take_number(const struct cfi_machine *m, struct cfi_bytes *b, const struct operands *operands)
{
    switch (operands->number) {
    case UNSIGNED:
        return (int64_t)cfi_take_uleb(b);
    case UNSIGNED_ALIGNED:
        return (int64_t)(cfi_take_uleb(b) * (uint64_t)m->data_align);
    case SIGNED_ALIGNED:
        return (int64_t)((uint64_t)cfi_take_sleb(b) * (uint64_t)m->data_align);
    default:
        return 0;
    }
}

static void run_action(struct cfi_machine *m, enum action action, uint64_t reg, int64_t number)
{
    static const enum cfi_place places[] = {[SAVE_AT_CFA] = AT_CFA, [SAVE_ODD] = ODD, [SAVE_UNDEFINED] = UNDEFINED, [SAVE_SAME] = SAME};
    if (action >= SAVE_AT_CFA && action <= SAVE_SAME)
        set_saved(m, reg, places[action], action == SAVE_AT_CFA ? number : 0);
    else if (action == RESTORE)
        restore(m, reg);
    else if (action == SET_CFA)
        set_cfa(m, reg, number);
    else if (action == SET_CFA_REGISTER)
        set_cfa(m, reg, m->now.cfa_offset);
    else if (action == SET_CFA_OFFSET)
        m->now.cfa_offset = number;
}

static void run_row(struct cfi_machine *m, struct cfi_bytes *b, const struct instruction *row)
{
    const struct operands *operands = &row->operands;
    if (operands->advance_bytes)
        m->pc += cfi_take(b, operands->advance_bytes) * m->code_align;
    uint64_t reg = operands->reg ? cfi_take_uleb(b) : 0;
    int64_t number = take_number(m, b, operands);
    if (operands->block)
        cfi_skip_block(b);
    run_action(m, row->action, reg, number);
}

static void run_special(struct cfi_machine *m, struct cfi_bytes *b, unsigned code)
{
    if (code == 0x01) /* set_loc */
        m->pc = cfi_take_pointer(b, m->encoding);
    else if (code == 0x0a) /* remember_state */
        remember(m, b);
    else if (code == 0x0b) /* restore_state */
        recall(m, b);
    else if (code == 0x0f) /* def_cfa_expression */
        set_cfa_expression(m, b);
    else if (code == 0x10) /* expression */
        set_saved_expression(m, b);
    else
        b->bad = true;
}

/* All instructions with operands of their own. */
static void run_other(struct cfi_machine *m, struct cfi_bytes *b, unsigned code)
{
    if (code < sizeof instructions / sizeof *instructions && instructions[code].is_known)
        run_row(m, b, &instructions[code]);
    else
        run_special(m, b, code);
}

/* Runs the program up to the wanted instruction. */
void cfi_run(struct cfi_machine *m, struct cfi_bytes *b)
{
    for (unsigned n = 0; b->at < b->end && !b->bad; n++) {
        struct cfi_row before = m->now;
        unsigned code = (unsigned)cfi_take(b, 1), operand = code & 0x3f;
        if (n == MAX_INSTRUCTIONS)
            b->bad = true;
        if (code >> 6 == 1)
            m->pc += operand * m->code_align;
        else if (code >> 6 == 2)
            set_saved(m, operand, AT_CFA, (int64_t)(cfi_take_uleb(b) * (uint64_t)m->data_align));
        else if (code >> 6 == 3)
            restore(m, operand);
        else
            run_other(m, b, code);
        if (!m->in_cie && m->pc > m->wanted) {
            m->now = before;
            return;
        }
    }
}
