/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of unwind rules by return address.
 *
 * _dl_find_object() of glibc 2.35 finds the object of an address without a lock. The rule keeps a few bits that
 * identify the object. When a stack is seen for the first time, the rules of its addresses are checked: the object may
 * have been unloaded, and another one may lie there now. A stack that was seen before had the same addresses then. */
#include "stacks/unwind_rules.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/meta.h"
#include "stacks/stack_bounds.h"

#define OBJECT_BITS_SHIFT 49 /* of a hash of 64 bits */
#define MAX_SEGMENTS 64

struct rules_bucket *rules_table;
_Atomic uint64_t *rules_steps;

/* No address leads to a step: the places of the lowest ones would. */
static COLD void begin_steps(void)
{
    rules_steps = meta_map(sizeof *rules_steps * STEPS);
    for (uintptr_t i = 0; rules_steps && i < STEP_BP_WORDS; i++)
        store_relaxed(&rules_steps[i], rules_mix_step(i, STEP_NONE));
}

COLD int rules_boot(void)
{
    if (!rules_table)
        rules_table = meta_map(sizeof *rules_table * RULES_BUCKETS);
    if (!rules_steps)
        begin_steps();
    return rules_table && rules_steps ? 0 : -ENOMEM;
}

/* ---- Objects ---- */

/* What the first page of an object has: its program headers, and as a rule its build id. */
struct headers {
    const char *start;
    size_t room;                /* bytes up to the end of the page */
    const ElfW(Phdr) *segments; /* NULL: they cannot be read */
    int n;
};

static struct headers headers_of(const struct dl_find_object *object)
{
    const ElfW(Ehdr) *elf = object->dlfo_map_start;
    struct headers h = {object->dlfo_map_start, 4096 - ((uintptr_t)elf & 4095), NULL, 0};
    if (!stack_page_is_readable((uintptr_t)elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phnum > MAX_SEGMENTS || elf->e_phoff > h.room ||
        elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > h.room)
        return h;
    h.segments = (const void *)(h.start + elf->e_phoff);
    h.n = elf->e_phnum;
    return h;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return ((hash ^ value) * 0x9e3779b97f4a7c15u) ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i + sizeof hash <= n; i += sizeof hash) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + i, sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

/* A hash of the object, which is never 0. Another one may be loaded later at the same place, with the same size: the sizes of
 * segments and the build id tell them apart. */
static uint64_t object_bits(const struct dl_find_object *object)
{
    struct headers headers = headers_of(object);
    uint64_t h = mix(mix((uintptr_t)object->dlfo_map_start, (uintptr_t)object->dlfo_map_end), (uintptr_t)object->dlfo_eh_frame);
    for (int i = 0; i < headers.n; i++) {
        const ElfW(Phdr) *segment = &headers.segments[i];
        h = mix_bytes(h, segment, sizeof *segment);
        if (segment->p_type == PT_NOTE && segment->p_offset < headers.room && segment->p_filesz <= headers.room - segment->p_offset)
            h = mix_bytes(h, headers.start + segment->p_offset, segment->p_filesz);
    }
    return (mix(h, h >> 29) >> OBJECT_BITS_SHIFT | 1) << RULE_OBJECT_SHIFT;
}

static struct rules_object rules_object_of(const struct dl_find_object *object)
{
    uintptr_t start = (uintptr_t)object->dlfo_map_start;
    return (struct rules_object){start, (uintptr_t)object->dlfo_map_end - start, object_bits(object)};
}

/* Finds the loaded segment that has the header in it. */
static bool find_segment(const struct dl_find_object *object, struct eh_frame_section *section)
{
    const char *start = object->dlfo_map_start, *header = object->dlfo_eh_frame;
    if (!header || header < start || header >= (const char *)object->dlfo_map_end)
        return false;
    struct headers headers = headers_of(object);
    uintptr_t base = object->dlfo_link_map->l_addr;
    for (int i = 0; i < headers.n; i++) {
        uintptr_t from = base + headers.segments[i].p_vaddr, end = from + headers.segments[i].p_filesz;
        if (headers.segments[i].p_type != PT_LOAD || (uintptr_t)header < from || (uintptr_t)header >= end)
            continue;
        *section = (struct eh_frame_section){(const void *)from, (const void *)end, (const void *)header};
        return stack_page_is_readable((uintptr_t)header);
    }
    return false;
}

/* ---- The table ---- */

static uint64_t pack(const struct unwind_rule *rule, uint64_t object)
{
    return (uint64_t)rule->kind | (uint64_t)rule->bp_kind << 3 | object | ((uint64_t)(uint32_t)rule->bp & 0xfffff) << 20 |
           (uint64_t)(uint32_t)rule->cfa << 40;
}

static void store(uintptr_t return_address, uint64_t rule)
{
    static _Atomic uint32_t turn;
    struct rules_bucket *bucket = rules_bucket_of(return_address);
    unsigned i = 0;
    while (i < RULES_WAYS && load_relaxed(&bucket->entries[i].mixed) != load_relaxed(&bucket->entries[i].rule))
        i++; /* an entry for the address 0 is free */
    if (i == RULES_WAYS)
        i = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % RULES_WAYS;
    store_relaxed(&bucket->entries[i].rule, rule);
    store_relaxed(&bucket->entries[i].mixed, return_address ^ rule);
}

/* ---- Objects that are never unloaded: the program, and libc ---- */

static struct permanent {
    struct rules_object object;
    struct eh_frame_section section;
    bool has_section;
} permanents[2];
static _Atomic uint32_t n_permanents; /* stored with release, after the objects */

static COLD void add_permanent(uintptr_t address)
{
    struct dl_find_object object;
    uint32_t n = load_relaxed(&n_permanents);
    struct permanent *p = &permanents[n];
    if (!address || _dl_find_object((void *)address, &object))
        return;
    p->object = rules_object_of(&object);
    p->has_section = find_segment(&object, &p->section);
    store_release(&n_permanents, n + 1);
}

/* In a static program, libc allocates while it prepares _dl_find_object(), which must not be called then. Constructors run later.
 * A dynamic linker has prepared it before. */
static _Atomic bool constructors_run;

static COLD __attribute__((constructor)) void note_constructors(void)
{
    store_relaxed(&constructors_run, true);
    add_permanent(getauxval(AT_ENTRY));
    add_permanent((uintptr_t)getauxval);
}

static COLD bool can_find_objects(void)
{
    return load_relaxed(&constructors_run) || getauxval(AT_BASE);
}

static const struct permanent *find_permanent(uintptr_t address)
{
    for (uint32_t i = 0, n = load_acquire(&n_permanents); i < n; i++)
        if (address - permanents[i].object.start < permanents[i].object.bytes)
            return &permanents[i];
    return NULL;
}

/* ---- New rules ---- */

/* Finds the rule of the code before a return address, and the bits of its object. */
static void look_for_rule(uintptr_t address, struct unwind_rule *rule, uint64_t *bits)
{
#ifdef __x86_64__
    const struct permanent *p = find_permanent(address);
    struct dl_find_object object;
    struct eh_frame_section section;
    bool has_section = false;
    if (p) {
        *bits = p->object.bits;
        section = p->section;
        has_section = p->has_section;
    } else if (!_dl_find_object((void *)address, &object)) {
        *bits = object_bits(&object);
        has_section = find_segment(&object, &section);
    }
    if (has_section)
        eh_frame_find(&section, address, rule);
#else
    (void)address, (void)rule, (void)bits;
#endif
}

COLD uint64_t rules_make(uintptr_t return_address)
{
    struct unwind_rule rule = {.kind = UNWIND_UNKNOWN};
    uint64_t bits = 0;
    int saved = errno;
    if (!can_find_objects())
        return pack(&rule, bits);
    if (return_address > 1)
        look_for_rule(return_address - 1, &rule, &bits);
    errno = saved;
    uint64_t packed = pack(&rule, bits);
    store(return_address, packed);
    return packed;
}

/* ---- Steps ---- */

static uint64_t step_of_sp(uint64_t rule)
{
    const int64_t word = sizeof(uintptr_t);
    int64_t cfa = rule_cfa(rule), bp = -rule_bp(rule);
    if (cfa <= 0 || cfa % word || cfa / word > UINT16_MAX)
        return STEP_NONE;
    if (rule_bp_kind(rule) == UNWIND_BP_SAME)
        return (uint64_t)(cfa / word);
    if (rule_bp_kind(rule) != UNWIND_BP_AT_CFA || bp <= 0 || bp > cfa || bp % word || bp / word >= STEP_BP_WORDS)
        return STEP_NONE;
    return (STEP_BP_WORDS - (uint64_t)(bp / word)) << STEP_BP_SHIFT | (uint64_t)(cfa / word);
}

static uint64_t step_of(uint64_t rule)
{
    if (rule_kind(rule) == UNWIND_SP)
        return step_of_sp(rule);
    if ((rule & ~RULE_OBJECT_MASK) == RULE_FRAME_POINTER)
        return STEP_FRAME_POINTER;
    return rule_kind(rule) == UNWIND_END ? STEP_END : STEP_NONE;
}

COLD bool rules_make_step(uintptr_t return_address)
{
    uint64_t step = return_address ? step_of(rules_find(return_address)) : STEP_END;
    if ((return_address << STEP_ADDRESS_SHIFT) >> STEP_ADDRESS_SHIFT != return_address)
        return false;
    store_relaxed(&rules_steps[return_address % STEPS], rules_mix_step(return_address, step));
    return true;
}

/* Corrects the step of a rule that has changed, and returns false. */
static bool check_step(uintptr_t return_address, uint64_t rule)
{
    _Atomic uint64_t *place = &rules_steps[return_address % STEPS];
    uint64_t step = rules_mix_step(return_address, load_relaxed(place)), right = step_of(rule);
    if (step > STEP_END || step == right)
        return true; /* the place has another address, or the right step */
    store_relaxed(place, rules_mix_step(return_address, right));
    return false;
}

/* ---- Checks ---- */

static void forget(uintptr_t return_address)
{
    struct rules_bucket *bucket = rules_bucket_of(return_address);
    for (int i = 0; i < RULES_WAYS; i++)
        if ((load_relaxed(&bucket->entries[i].mixed) ^ load_relaxed(&bucket->entries[i].rule)) == return_address)
            store_relaxed(&bucket->entries[i].mixed, load_relaxed(&bucket->entries[i].rule));
}

static void find_object(uintptr_t address, struct rules_object *found)
{
    const struct permanent *p = find_permanent(address);
    struct dl_find_object object;
    *found = (struct rules_object){0};
    if (p)
        *found = p->object;
    else if (address && can_find_objects() && !_dl_find_object((void *)address, &object))
        *found = rules_object_of(&object);
}

COLD bool rules_check(uintptr_t return_address, struct rules_object *last)
{
    if (return_address - 1 - last->start >= last->bytes)
        find_object(return_address - 1, last);
    uint64_t rule = rules_find(return_address);
    if ((rule & RULE_OBJECT_MASK) == last->bits)
        return check_step(return_address, rule);
    forget(return_address);
    return false;
}
