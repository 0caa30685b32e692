/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .eh_frame. */
#include "stacks/eh_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "stacks/cfi.h"

/* ---- Entries ---- */

struct entry {
    struct cfi_bytes cie, fde; /* the programs */
    uint64_t first, n_bytes; /* of code */
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra; /* the register that has the return address */
    unsigned encoding;
    bool is_signal, has_data; /* entries have augmentation data */
};

/* The bytes of an entry after its length. The 64-bit form is not used by compilers. */
static struct cfi_bytes open_entry(const struct eh_frame_section *s, const unsigned char *at)
{
    struct cfi_bytes b = {at, s->end, at < s->start || at >= s->end};
    if (b.bad)
        b.at = b.end;
    uint64_t length = cfi_take(&b, 4);
    if (!length || length >= 0xfffffff0u || length > (uint64_t)(b.end - b.at))
        b.bad = true;
    else
        b.end = b.at + length;
    return b;
}

static void read_augmentation(struct entry *e, struct cfi_bytes *b, const char *text)
{
    uint64_t length = cfi_take_uleb(b);
    if (length > (uint64_t)(b->end - b->at)) {
        b->bad = true;
        return;
    }
    struct cfi_bytes data = {b->at, b->at + length, false};
    cfi_skip(b, length);
    for (; *text && !data.bad; text++) {
        if (*text == 'R') {
            e->encoding = (unsigned)cfi_take(&data, 1);
        } else if (*text == 'L') {
            cfi_take(&data, 1);
        } else if (*text == 'P') {
            unsigned encoding = (unsigned)cfi_take(&data, 1) & 0x7f;
            cfi_take_pointer(&data, encoding & 0x0f);
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
    struct cfi_bytes b = open_entry(s, at);
    uint64_t id = cfi_take(&b, 4), version = cfi_take(&b, 1);
    const char *text = (const char *)b.at;
    while (cfi_take(&b, 1))
        ;
    if (b.bad || id || (version != 1 && version != 3))
        return false;
    e->code_align = cfi_take_uleb(&b);
    e->data_align = cfi_take_sleb(&b);
    e->ra = version == 1 ? cfi_take(&b, 1) : cfi_take_uleb(&b);
    e->has_data = *text == 'z';
    if (e->has_data)
        read_augmentation(e, &b, text + 1);
    else if (*text)
        b.bad = true;
    e->cie = b;
    return !b.bad;
}

static bool read_fde(struct entry *e, const struct eh_frame_section *s, const unsigned char *at)
{
    struct cfi_bytes b = open_entry(s, at);
    const unsigned char *here = b.at;
    uint64_t back = cfi_take(&b, 4);
    if (b.bad || !back || back > (uint64_t)(here - s->start) || !read_cie(e, s, here - back))
        return false;
    e->first = cfi_take_pointer(&b, e->encoding);
    e->n_bytes = cfi_take_pointer(&b, e->encoding & 0x0f);
    if (e->has_data)
        cfi_skip_block(&b);
    e->fde = b;
    return !b.bad;
}

/* ---- The table of functions ---- */

struct table_row {
    int32_t first, entry; /* both relative to the header */
};

/* The last function that begins at or before the instruction. */
static const unsigned char *find_row(const struct eh_frame_section *s, uintptr_t pc)
{
    struct cfi_bytes b = {s->header, s->end, s->header < s->start || s->header >= s->end};
    if (b.bad)
        return NULL;
    uint64_t version = cfi_take(&b, 1), frame_encoding = cfi_take(&b, 1), count_encoding = cfi_take(&b, 1),
             table_encoding = cfi_take(&b, 1);
    if (version != 1 || frame_encoding != 0x1b || count_encoding != 0x03 || table_encoding != 0x3b)
        return NULL;
    cfi_take(&b, 4);
    uint64_t low = 0, high = cfi_take(&b, 4);
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

static bool find_entry(struct entry *e, const struct eh_frame_section *s, uintptr_t pc)
{
    const unsigned char *at = find_row(s, pc);
    *e = (struct entry){0};
    return at && read_fde(e, s, at) && pc - e->first < e->n_bytes;
}

bool eh_frame_start(const struct eh_frame_section *section, uintptr_t pc, uintptr_t *start)
{
    struct entry e;
    bool found = find_entry(&e, section, pc);
    *start = (uintptr_t)e.first;
    return found;
}

/* ---- Rules ---- */

static void set_rule(struct unwind_rule *rule, const struct cfi_row *row)
{
    if (row->ra.place == UNDEFINED) {
        rule->kind = UNWIND_END;
        return;
    }
    bool good_bp = row->bp.place == SAME || (row->bp.place != ODD && row->bp.place != UNDEFINED && rule_bp_fits(row->bp.offset));
    if (row->ra.place != AT_CFA || row->ra.offset != RULE_RETURN_ADDRESS || !good_bp || !rule_cfa_fits(row->cfa_offset))
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
    struct entry e;
    if (!find_entry(&e, section, pc) || e.ra != REGISTER_RA)
        return;
    if (e.is_signal) {
        rule->kind = UNWIND_SIGNAL;
        return;
    }
    struct cfi_machine m = {.code_align = e.code_align, .data_align = e.data_align, .encoding = e.encoding, .wanted = pc, .in_cie = true};
    m.now.cfa_kind = CFA_ODD;
    cfi_run(&m, &e.cie);
    m.initial = m.now;
    m.in_cie = false;
    m.pc = e.first;
    cfi_run(&m, &e.fde);
    if (!e.cie.bad && !e.fde.bad)
        set_rule(rule, &m.now);
}
