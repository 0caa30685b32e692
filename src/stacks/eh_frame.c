/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .eh_frame. */
#include "stacks/eh_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Register numbers of DWARF on x86-64. */
#define REGISTER_BP 6
#define REGISTER_SP 7
#define REGISTER_RA 16

#define MAX_INSTRUCTIONS 4096 /* a function has a few tens */
#define MAX_REMEMBERED 8

/* ---- Bytes ---- */

/* Reads past the end return 0 and set `bad`. */
struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t take(struct bytes *b, size_t n)
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

static void skip(struct bytes *b, uint64_t n)
{
    if ((uint64_t)(b->end - b->at) < n) {
        b->bad = true;
        b->at = b->end;
    } else {
        b->at += n;
    }
}

static uint64_t take_uleb(struct bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(b, 1);
        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    b->bad = true;
    return 0;
}

static int64_t take_sleb(struct bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = take(b, 1);
        value |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return (int64_t)(byte & 0x40 && shift < 64 ? value | ~(uint64_t)0 << shift : value);
    }
    b->bad = true;
    return 0;
}

/* A pointer by its encoding (DW_EH_PE_*): absolute, or relative to where it is. */
static uint64_t take_pointer(struct bytes *b, unsigned encoding)
{
    uint64_t base = (encoding & 0x70) == 0x10 ? (uintptr_t)b->at : 0;
    if (encoding & 0x80 || ((encoding & 0x70) && (encoding & 0x70) != 0x10))
        b->bad = true;
    switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c:
        return base + take(b, 8);
    case 0x02:
        return base + take(b, 2);
    case 0x03:
        return base + take(b, 4);
    case 0x0a:
        return base + (uint64_t)(int64_t)(int16_t)take(b, 2);
    case 0x0b:
        return base + (uint64_t)(int64_t)(int32_t)take(b, 4);
    default:
        b->bad = true;
        return 0;
    }
}

/* ---- The rows of the program ---- */

enum place { SAME, AT_CFA, AT_BP, UNDEFINED, ODD };
struct saved {
    enum place place;
    int64_t offset;
};
struct row {
    enum { CFA_REGISTER, CFA_DEREF_BP, CFA_ODD } cfa_kind;
    uint64_t cfa_register;
    int64_t cfa_offset;
    struct saved bp, ra;
};

struct machine {
    struct row now, initial, remembered[MAX_REMEMBERED];
    unsigned n_remembered;
    uint64_t code_align;
    int64_t data_align;
    uint64_t pc, wanted;
    unsigned encoding;
    bool in_cie; /* the initial instructions */
};

static void set_saved(struct machine *m, uint64_t reg, enum place place, int64_t offset)
{
    struct saved *saved = reg == REGISTER_BP ? &m->now.bp : reg == REGISTER_RA ? &m->now.ra : NULL;
    if (saved)
        *saved = (struct saved){place, offset};
}

static void restore(struct machine *m, uint64_t reg)
{
    if (reg == REGISTER_BP)
        m->now.bp = m->initial.bp;
    else if (reg == REGISTER_RA)
        m->now.ra = m->initial.ra;
}

/* Takes an expression of the form "frame pointer + offset", perhaps with a dereference. */
static bool take_bp_expression(struct bytes *b, bool dereferenced, int64_t *offset)
{
    uint64_t length = take_uleb(b);
    if (length > (uint64_t)(b->end - b->at)) {
        b->bad = true;
        return false;
    }
    struct bytes e = {b->at, b->at + length, false};
    skip(b, length);
    bool is_bp = take(&e, 1) == 0x70 + REGISTER_BP; /* DW_OP_breg6 */
    *offset = take_sleb(&e);
    if (dereferenced)
        is_bp &= take(&e, 1) == 0x06; /* DW_OP_deref */
    return is_bp && !e.bad && e.at == e.end;
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
    m->now.cfa_kind = CFA_REGISTER;
    m->now.cfa_register = reg;
    m->now.cfa_offset = offset;
}

static void set_cfa_expression(struct machine *m, struct bytes *b)
{
    int64_t offset;
    m->now.cfa_kind = take_bp_expression(b, true, &offset) ? CFA_DEREF_BP : CFA_ODD;
    m->now.cfa_offset = offset;
}

static void set_saved_expression(struct machine *m, struct bytes *b)
{
    uint64_t reg = take_uleb(b);
    int64_t offset;
    bool is_bp = take_bp_expression(b, false, &offset);
    set_saved(m, reg, is_bp ? AT_BP : ODD, offset);
}

static void remember(struct machine *m, struct bytes *b)
{
    if (m->n_remembered == MAX_REMEMBERED)
        b->bad = true;
    else
        m->remembered[m->n_remembered++] = m->now;
}

static void recall(struct machine *m, struct bytes *b)
{
    if (!m->n_remembered)
        b->bad = true;
    else
        m->now = m->remembered[--m->n_remembered];
}

static void skip_block(struct bytes *b)
{
    skip(b, take_uleb(b));
}

/* All instructions with operands of their own: DW_CFA_*. */
static void run_other(struct machine *m, struct bytes *b, unsigned code)
{
    uint64_t reg;
    switch (code) {
    case 0x00: /* nop */
        break;
    case 0x01: /* set_loc */
        m->pc = take_pointer(b, m->encoding);
        break;
    case 0x02: /* advance_loc1, 2, 4 */
        m->pc += take(b, 1) * m->code_align;
        break;
    case 0x03:
        m->pc += take(b, 2) * m->code_align;
        break;
    case 0x04:
        m->pc += take(b, 4) * m->code_align;
        break;
    case 0x05: /* offset_extended */
        reg = take_uleb(b);
        set_saved(m, reg, AT_CFA, (int64_t)(take_uleb(b) * (uint64_t)m->data_align));
        break;
    case 0x06: /* restore_extended */
        restore(m, take_uleb(b));
        break;
    case 0x07: /* undefined */
        set_saved(m, take_uleb(b), UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_saved(m, take_uleb(b), SAME, 0);
        break;
    case 0x09: /* register: saved in another register */
        reg = take_uleb(b);
        take_uleb(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x0a:
        remember(m, b);
        break;
    case 0x0b:
        recall(m, b);
        break;
    case 0x0c: /* def_cfa */
        reg = take_uleb(b);
        set_cfa(m, reg, (int64_t)take_uleb(b));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(m, take_uleb(b), m->now.cfa_offset);
        break;
    case 0x0e: /* def_cfa_offset */
        m->now.cfa_offset = (int64_t)take_uleb(b);
        break;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(m, b);
        break;
    case 0x10: /* expression */
        set_saved_expression(m, b);
        break;
    case 0x11: /* offset_extended_sf */
        reg = take_uleb(b);
        set_saved(m, reg, AT_CFA, (int64_t)((uint64_t)take_sleb(b) * (uint64_t)m->data_align));
        break;
    case 0x12: /* def_cfa_sf */
        reg = take_uleb(b);
        set_cfa(m, reg, (int64_t)((uint64_t)take_sleb(b) * (uint64_t)m->data_align));
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->now.cfa_offset = (int64_t)((uint64_t)take_sleb(b) * (uint64_t)m->data_align);
        break;
    case 0x14: case 0x15: /* val_offset, val_offset_sf: the value itself, no place */
        reg = take_uleb(b);
        take_uleb(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x16: /* val_expression */
        reg = take_uleb(b);
        skip_block(b);
        set_saved(m, reg, ODD, 0);
        break;
    case 0x2e: /* GNU_args_size */
        take_uleb(b);
        break;
    default:
        b->bad = true;
    }
}

/* Runs the program up to the wanted instruction. */
static void run(struct machine *m, struct bytes *b)
{
    for (unsigned n = 0; b->at < b->end && !b->bad; n++) {
        struct row before = m->now;
        unsigned code = (unsigned)take(b, 1), operand = code & 0x3f;
        if (n == MAX_INSTRUCTIONS)
            b->bad = true;
        if (code >> 6 == 1)
            m->pc += operand * m->code_align;
        else if (code >> 6 == 2)
            set_saved(m, operand, AT_CFA, (int64_t)(take_uleb(b) * (uint64_t)m->data_align));
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

/* ---- Entries ---- */

struct entry {
    struct bytes cie, fde; /* the programs */
    uint64_t first, n_bytes; /* of code */
    uint64_t code_align;
    int64_t data_align;
    unsigned encoding;
    bool is_signal, has_data; /* entries have augmentation data */
};

/* The bytes of an entry after its length. The 64-bit form is not used by compilers. */
static struct bytes open_entry(const struct eh_frame_section *s, const unsigned char *at)
{
    struct bytes b = {at, s->end, at < s->start || at >= s->end};
    if (b.bad)
        b.at = b.end;
    uint64_t length = take(&b, 4);
    if (!length || length >= 0xfffffff0u || length > (uint64_t)(b.end - b.at))
        b.bad = true;
    else
        b.end = b.at + length;
    return b;
}

static void read_augmentation(struct entry *e, struct bytes *b, const char *text)
{
    uint64_t length = take_uleb(b);
    if (length > (uint64_t)(b->end - b->at)) {
        b->bad = true;
        return;
    }
    struct bytes data = {b->at, b->at + length, false};
    skip(b, length);
    for (; *text && !data.bad; text++) {
        if (*text == 'R') {
            e->encoding = (unsigned)take(&data, 1);
        } else if (*text == 'L') {
            take(&data, 1);
        } else if (*text == 'P') {
            unsigned encoding = (unsigned)take(&data, 1) & 0x7f;
            take_pointer(&data, encoding & 0x0f);
        } else if (*text == 'S') {
            e->is_signal = true;
        } else if (*text != 'B') {
            data.bad = true;
        }
    }
    b->bad |= data.bad;
}

static bool read_cie(struct entry *e, const struct eh_frame_section *s, const unsigned char *at)
{
    struct bytes b = open_entry(s, at);
    uint64_t id = take(&b, 4), version = take(&b, 1);
    const char *text = (const char *)b.at;
    while (take(&b, 1))
        ;
    if (b.bad || id || (version != 1 && version != 3))
        return false;
    e->code_align = take_uleb(&b);
    e->data_align = take_sleb(&b);
    uint64_t ra = version == 1 ? take(&b, 1) : take_uleb(&b);
    e->has_data = *text == 'z';
    if (e->has_data)
        read_augmentation(e, &b, text + 1);
    else if (*text)
        b.bad = true;
    e->cie = b;
    return !b.bad && ra == REGISTER_RA;
}

static bool read_fde(struct entry *e, const struct eh_frame_section *s, const unsigned char *at)
{
    struct bytes b = open_entry(s, at);
    const unsigned char *here = b.at;
    uint64_t back = take(&b, 4);
    if (b.bad || !back || back > (uint64_t)(here - s->start) || !read_cie(e, s, here - back))
        return false;
    e->first = take_pointer(&b, e->encoding);
    e->n_bytes = take_pointer(&b, e->encoding & 0x0f);
    if (e->has_data)
        skip_block(&b);
    e->fde = b;
    return !b.bad;
}

/* ---- The table of functions ---- */

struct table_row {
    int32_t first, entry; /* both relative to the header */
};

/* The entry of the last function that begins at or before the instruction. */
static const unsigned char *find_entry(const struct eh_frame_section *s, uintptr_t pc)
{
    struct bytes b = {s->header, s->end, s->header < s->start || s->header >= s->end};
    if (b.bad)
        return NULL;
    uint64_t version = take(&b, 1), frame_encoding = take(&b, 1), count_encoding = take(&b, 1), table_encoding = take(&b, 1);
    if (version != 1 || frame_encoding != 0x1b || count_encoding != 0x03 || table_encoding != 0x3b)
        return NULL;
    take(&b, 4);
    uint64_t low = 0, high = take(&b, 4);
    const unsigned char *table = b.at;
    if (b.bad || !high || high > (uint64_t)(b.end - b.at) / sizeof(struct table_row))
        return NULL;
    int64_t wanted = (int64_t)(pc - (uintptr_t)s->header);
    struct table_row row;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        memcpy(&row, table + middle * sizeof row, sizeof row);
        if (row.first <= wanted)
            low = middle;
        else
            high = middle;
    }
    memcpy(&row, table + low * sizeof row, sizeof row);
    if (row.first > wanted)
        return NULL;
    uintptr_t at = (uintptr_t)s->header + (uintptr_t)(intptr_t)row.entry;
    return at >= (uintptr_t)s->start && at < (uintptr_t)s->end ? (const unsigned char *)at : NULL;
}

/* ---- Rules ---- */

#define MAX_OFFSET ((1 << 23) - 1) /* the range that a rule of unwind_rules.c can store */
#define MAX_BP_OFFSET ((1 << 18) - 1)

static bool fits(int64_t offset, int64_t most)
{
    return offset <= most && offset >= -most;
}

static void set_rule(struct unwind_rule *rule, const struct row *row)
{
    if (row->ra.place == UNDEFINED) {
        rule->kind = UNWIND_END;
        return;
    }
    bool good_bp = row->bp.place == SAME || (row->bp.place != ODD && row->bp.place != UNDEFINED && fits(row->bp.offset, MAX_BP_OFFSET));
    if (row->ra.place != AT_CFA || row->ra.offset != -8 || !good_bp || !fits(row->cfa_offset, MAX_OFFSET))
        return;
    if (row->cfa_kind == CFA_DEREF_BP)
        rule->kind = UNWIND_DEREF_BP;
    else if (row->cfa_kind == CFA_REGISTER && row->cfa_register == REGISTER_SP)
        rule->kind = UNWIND_SP;
    else if (row->cfa_kind == CFA_REGISTER && row->cfa_register == REGISTER_BP)
        rule->kind = UNWIND_BP;
    rule->cfa = (int32_t)row->cfa_offset;
    rule->bp_kind = row->bp.place == AT_CFA ? UNWIND_BP_AT_CFA : row->bp.place == AT_BP ? UNWIND_BP_AT_BP : UNWIND_BP_SAME;
    rule->bp = rule->bp_kind == UNWIND_BP_SAME ? 0 : (int32_t)row->bp.offset;
}

void eh_frame_find(const struct eh_frame_section *section, uintptr_t pc, struct unwind_rule *rule)
{
    *rule = (struct unwind_rule){.kind = UNWIND_UNKNOWN};
    const unsigned char *at = find_entry(section, pc);
    struct entry e = {0};
    if (!at || !read_fde(&e, section, at) || pc - e.first >= e.n_bytes)
        return;
    if (e.is_signal) {
        rule->kind = UNWIND_SIGNAL;
        return;
    }
    struct machine m = {.code_align = e.code_align, .data_align = e.data_align, .encoding = e.encoding, .wanted = pc, .in_cie = true};
    m.now.cfa_kind = CFA_ODD;
    run(&m, &e.cie);
    m.initial = m.now;
    m.in_cie = false;
    m.pc = e.first;
    run(&m, &e.fde);
    if (!e.cie.bad && !e.fde.bad)
        set_rule(rule, &m.now);
}
