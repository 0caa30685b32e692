/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .sframe. */
#include "stacks/sframe.h"

#include <stddef.h>

#include "stacks/cfi.h"

#define MAGIC 0xdee2u
#define VERSION_MOST 3u
#define ABI_AMD64 3u

#define FLAG_SORTED     1u
#define FLAG_FROM_FIELD 4u /* starts of functions are counted from where they stand, and not from the section's start */

/* A number of `bytes` bytes with a sign. */
static int64_t take_signed(struct cfi_bytes *b, unsigned bytes)
{
    unsigned shift = 64 - 8 * bytes;
    return (int64_t)(cfi_take(b, bytes) << shift) >> shift;
}

/* ---- The section's parts ---- */

struct parts {
    const unsigned char *start;     /* of the section */
    const unsigned char *functions; /* entries of one size */
    uint64_t n;                     /* of these */
    struct cfi_bytes rows;          /* what the entries lead to */
    unsigned version;
    bool from_field;
};

static const uint8_t entry_bytes[VERSION_MOST + 1] = {0, 17, 20, 16};

/* Offsets of the parts are counted from the end of the header. */
static bool find_parts(struct parts *p, const struct sframe_section *section)
{
    struct cfi_bytes b = {section->start, section->end, false};
    uint64_t magic = cfi_take(&b, 2), version = cfi_take(&b, 1), flags = cfi_take(&b, 1), abi = cfi_take(&b, 1);
    int64_t fixed_bp = take_signed(&b, 1), fixed_ra = take_signed(&b, 1);
    uint64_t more = cfi_take(&b, 1), n = cfi_take(&b, 4);
    cfi_skip(&b, 4); /* the number of rows */
    uint64_t rows_bytes = cfi_take(&b, 4), functions_at = cfi_take(&b, 4), rows_at = cfi_take(&b, 4);
    cfi_skip(&b, more);
    uint64_t room = (uint64_t)(b.end - b.at);
    if (b.bad || magic != MAGIC || !version || version > VERSION_MOST || !(flags & FLAG_SORTED) || abi != ABI_AMD64 || fixed_bp ||
        fixed_ra != RULE_RETURN_ADDRESS || functions_at > room || n > (room - functions_at) / entry_bytes[version] || rows_at > room ||
        rows_bytes > room - rows_at)
        return false;
    *p = (struct parts){section->start, b.at + functions_at, n, {b.at + rows_at, b.at + rows_at + rows_bytes, false}, (unsigned)version,
                        flags & FLAG_FROM_FIELD};
    return true;
}

/* ---- Functions ---- */

struct function {
    uint64_t n_rows;
    unsigned start_bytes; /* of a row's first field */
    unsigned repeats;     /* a block of so many bytes comes again and again, as in .plt; 0: none does */
    bool is_flexible, is_signal;
    struct cfi_bytes rows;
};

static struct cfi_bytes entry_at(const struct parts *p, uint64_t i)
{
    const unsigned char *at = p->functions + i * entry_bytes[p->version];
    return (struct cfi_bytes){at, at + entry_bytes[p->version], false};
}

static uintptr_t take_start(const struct parts *p, struct cfi_bytes *entry)
{
    const unsigned char *from = p->from_field ? entry->at : p->start;
    return (uintptr_t)from + (uintptr_t)take_signed(entry, p->version == 3 ? 8 : 4);
}

/* The entry of the last function that begins at or before the instruction. There is at least one entry. */
static struct cfi_bytes find_entry(const struct parts *p, uintptr_t pc)
{
    uint64_t low = 0, high = p->n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        struct cfi_bytes entry = entry_at(p, middle);
        if (take_start(p, &entry) <= pc)
            low = middle;
        else
            high = middle;
    }
    return entry_at(p, low);
}

/* Version 3 has the second half of an entry before the rows. */
static void take_second_half(struct function *f, unsigned version, struct cfi_bytes *entry)
{
    struct cfi_bytes *half = version == 3 ? &f->rows : entry;
    f->n_rows = cfi_take(half, version == 3 ? 2 : 4);
    uint64_t info = cfi_take(half, 1), more_info = version == 3 ? cfi_take(half, 1) : 0, repeats = version == 1 ? 16 : cfi_take(half, 1);
    f->start_bytes = 1u << (info & 15);
    f->repeats = info & 16 ? (unsigned)repeats : 0;
    f->is_signal = version == 3 && info & 128;
    f->is_flexible = (more_info & 31) == 1;
    f->rows.bad |= half->bad || f->start_bytes > 4 || (more_info & 31) > 1 || (info & 16 && !repeats);
}

/* Returns the distance of the instruction from where the rows count: the function's start, or that of its last block. */
static uint64_t find_function(const struct parts *p, uintptr_t pc, struct function *f)
{
    struct cfi_bytes entry = find_entry(p, pc);
    uint64_t distance = pc - take_start(p, &entry), bytes = cfi_take(&entry, 4), rows_at = cfi_take(&entry, 4);
    *f = (struct function){.rows = p->rows};
    f->rows.bad = distance >= bytes;
    cfi_skip(&f->rows, rows_at);
    take_second_half(f, p->version, &entry);
    return f->repeats ? distance % f->repeats : distance;
}

/* ---- Rows ---- */

#define WORDS_MOST 15u

struct row {
    bool by_sp; /* the CFA is counted from the stack pointer, and not from the frame pointer */
    unsigned n; /* words */
    int64_t words[WORDS_MOST];
};

static void take_row(struct row *row, struct cfi_bytes *b)
{
    uint64_t info = cfi_take(b, 1);
    unsigned bytes = 1u << (info >> 5 & 3);
    row->by_sp = info & 1;
    row->n = info >> 1 & 15;
    b->bad |= bytes > 4;
    for (unsigned i = 0; i < row->n && !b->bad; i++)
        row->words[i] = take_signed(b, bytes);
}

/* The last row that begins at or before the instruction. */
static bool find_row(struct function *f, uint64_t distance, struct row *found)
{
    bool any = false;
    for (uint64_t i = 0; i < f->n_rows && !f->rows.bad; i++) {
        if (cfi_take(&f->rows, f->start_bytes) > distance)
            break;
        take_row(found, &f->rows);
        any = true;
    }
    return any && !f->rows.bad;
}

/* ---- Rules ---- */

static void set_rule(struct unwind_rule *rule, enum unwind_kind kind, int64_t cfa, enum unwind_bp bp_kind, int64_t bp)
{
    if (rule_cfa_fits(cfa) && rule_bp_fits(bp))
        *rule = (struct unwind_rule){kind, bp_kind, (int32_t)cfa, (int32_t)bp};
}

/* The CFA's distance, and where the caller's frame pointer is saved, if it is. */
static void set_usual(struct unwind_rule *rule, const struct row *row)
{
    if (row->n <= 2)
        set_rule(rule, row->by_sp ? UNWIND_SP : UNWIND_BP, row->words[0], row->n == 2 ? UNWIND_BP_AT_CFA : UNWIND_BP_SAME,
                 row->n == 2 ? row->words[1] : 0);
}

/* A location of version 3: a control word and a distance. A control word of 0 has no distance, and stands for the usual location. */
struct location {
    bool is_usual, by_register, is_saved; /* `is_saved`: the value is the word at the address */
    uint64_t number;                      /* of the register; without it the CFA */
    int64_t distance;
};

static struct location take_location(const struct row *row, unsigned *next)
{
    int64_t control = *next < row->n ? row->words[(*next)++] : 0;
    struct location l = {.is_usual = !control, .by_register = control & 1, .is_saved = control & 2};
    if (l.is_usual || *next == row->n)
        return l;
    l.number = (uint64_t)control >> 3;
    l.distance = row->words[(*next)++];
    return l;
}

/* Three locations: of the CFA, the return address and the caller's frame pointer. */
static void set_flexible(struct unwind_rule *rule, const struct row *row)
{
    unsigned next = 0;
    struct location cfa = take_location(row, &next), ra = take_location(row, &next), bp = take_location(row, &next);
    bool by_bp = cfa.number == REGISTER_BP, by_sp = cfa.number == REGISTER_SP && !cfa.is_saved;
    bool ra_is_good = ra.is_usual || (!ra.by_register && ra.is_saved && ra.distance == RULE_RETURN_ADDRESS);
    bool bp_is_good = bp.is_usual || (bp.is_saved && (!bp.by_register || bp.number == REGISTER_BP));
    if (!cfa.by_register || !(by_bp || by_sp) || !ra_is_good || !bp_is_good)
        return;
    set_rule(rule, by_sp ? UNWIND_SP : cfa.is_saved ? UNWIND_DEREF_BP : UNWIND_BP, cfa.distance,
             bp.is_usual ? UNWIND_BP_SAME : bp.by_register ? UNWIND_BP_AT_BP : UNWIND_BP_AT_CFA, bp.distance);
}

void sframe_find(const struct sframe_section *section, uintptr_t pc, struct unwind_rule *rule)
{
    struct parts parts;
    struct function f;
    struct row row;
    *rule = (struct unwind_rule){.kind = UNWIND_UNKNOWN};
    if (!find_parts(&parts, section) || !parts.n)
        return;
    uint64_t distance = find_function(&parts, pc, &f);
    if (f.rows.bad)
        return;
    if (f.is_signal)
        rule->kind = UNWIND_SIGNAL;
    else if (parts.version == 3 && !f.n_rows && !f.is_flexible)
        rule->kind = UNWIND_END;
    else if (!find_row(&f, distance, &row))
        return;
    else if (!row.n)
        rule->kind = UNWIND_END;
    else if (f.is_flexible)
        set_flexible(rule, &row);
    else
        set_usual(rule, &row);
}
