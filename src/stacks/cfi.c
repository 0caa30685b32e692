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

/* All instructions with operands of their own: DW_CFA_*. */
static void run_other(struct cfi_machine *m, struct cfi_bytes *b, unsigned code)
{
    uint64_t reg;
    switch (code) {
    case 0x00: /* nop */
        break;
    case 0x01: /* set_loc */
        m->pc = cfi_take_pointer(b, m->encoding);
        break;
    case 0x02: /* advance_loc1, 2, 4 */
        m->pc += cfi_take(b, 1) * m->code_align;
        break;
    case 0x03:
        m->pc += cfi_take(b, 2) * m->code_align;
        break;
    case 0x04:
        m->pc += cfi_take(b, 4) * m->code_align;
        break;
    case 0x05: /* offset_extended */
        reg = cfi_take_uleb(b);
        set_saved(m, reg, AT_CFA, (int64_t)(cfi_take_uleb(b) * (uint64_t)m->data_align));
        break;
    case 0x06: /* restore_extended */
        restore(m, cfi_take_uleb(b));
        break;
    case 0x07: /* undefined */
        set_saved(m, cfi_take_uleb(b), UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_saved(m, cfi_take_uleb(b), SAME, 0);
        break;
    case 0x09: /* register: saved in another register */
        reg = cfi_take_uleb(b);
        cfi_take_uleb(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x0a:
        remember(m, b);
        break;
    case 0x0b:
        recall(m, b);
        break;
    case 0x0c: /* def_cfa */
        reg = cfi_take_uleb(b);
        set_cfa(m, reg, (int64_t)cfi_take_uleb(b));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(m, cfi_take_uleb(b), m->now.cfa_offset);
        break;
    case 0x0e: /* def_cfa_offset */
        m->now.cfa_offset = (int64_t)cfi_take_uleb(b);
        break;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(m, b);
        break;
    case 0x10: /* expression */
        set_saved_expression(m, b);
        break;
    case 0x11: /* offset_extended_sf */
        reg = cfi_take_uleb(b);
        set_saved(m, reg, AT_CFA, (int64_t)((uint64_t)cfi_take_sleb(b) * (uint64_t)m->data_align));
        break;
    case 0x12: /* def_cfa_sf */
        reg = cfi_take_uleb(b);
        set_cfa(m, reg, (int64_t)((uint64_t)cfi_take_sleb(b) * (uint64_t)m->data_align));
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->now.cfa_offset = (int64_t)((uint64_t)cfi_take_sleb(b) * (uint64_t)m->data_align);
        break;
    case 0x14: case 0x15: /* val_offset, val_offset_sf: the value itself, no place */
        reg = cfi_take_uleb(b);
        cfi_take_uleb(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x16: /* val_expression */
        reg = cfi_take_uleb(b);
        cfi_skip_block(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x2e: /* GNU_args_size */
        cfi_take_uleb(b);
        break;
    default:
        b->bad = true;
    }
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
