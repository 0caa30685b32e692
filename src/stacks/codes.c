/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of code that stacks went through. */
#include "stacks/codes.h"

#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"
#include "base/state_file.h"
#include "stacks/unwind_rules.h"

#define GROWTH 8u
#define PAGE_BYTES 4096u

struct code *codes;
_Atomic uint32_t codes_end;

static struct meta_array array;
static uint32_t mapped;
static uint64_t next_own = CODES_OWN_START;
static bool any_unloaded; /* since codes_take_unloaded() returned false */

COLD int codes_boot(void)
{
    if (codes)
        return 0;
    int error = meta_array_begin(&array, CODES_MOST * sizeof *codes);
    if (error)
        return error;
    codes = (struct code *)array.start;
    meta_array_watch(&array);
    STATE_COPY(codes);
    return 0;
}

static bool has_address(const struct code *c, uintptr_t address)
{
    return address - c->start < c->bytes;
}

/* ---- Changes ---- */

static void set_state(struct code *c, enum code_state state)
{
    store_relaxed(&c->state, state);
    STATE_COPY(*c);
}

static COLD void unload(struct code *c)
{
    any_unloaded = true;
    rules_forget_code(c->start, c->start + c->bytes);
    set_state(c, CODE_FORGETTING);
}

static COLD struct code *add(const struct object *object, uintptr_t address, bool is_first)
{
    uint32_t n = load_relaxed(&codes_end);
    uint64_t own_bytes = round_up(object->bytes, PAGE_BYTES);
    bool has_room = n < mapped || (mapped < CODES_MOST && meta_array_grow(&array, (mapped + GROWTH) * sizeof *codes));
    if (!has_room || own_bytes >= CODES_OWN_LIMIT - next_own)
        return NULL;
    if (n == mapped)
        mapped += GROWTH;
    struct code *c = &codes[n];
    *c = (struct code){.start = object->start, .bytes = object->bytes, .shown = is_first ? object->start : next_own,
                       .identity = object->identity, .link_map = object->link_map};
    if (object->identity)
        object_describe(address, &c->parts, c->file, sizeof c->file);
    if (!is_first)
        next_own += own_bytes;
    store_release(&codes_end, n + 1);
    STATE_COPY(*c);
    STATE_COPY(codes_end);
    return c;
}

/* ---- Which code is at an address ---- */

/* Without a build id, an object that was unloaded may not be this one. */
static bool is_of(const struct code *c, const struct object *object)
{
    return c->start == object->start && c->bytes == object->bytes && c->identity == object->identity &&
           (c->parts.build_id_bytes || load_relaxed(&c->state) == CODE_LOADED);
}

/* All others whose place it takes were unloaded. NULL: there is no room. */
static COLD struct code *find_or_add(const struct object *object, uintptr_t address)
{
    struct code *found = NULL;
    bool is_first = true;
    for (uint32_t i = 0, n = load_relaxed(&codes_end); i < n; i++) {
        struct code *c = &codes[i];
        if (c->start >= object->start + object->bytes || object->start >= c->start + c->bytes)
            continue;
        is_first = false;
        if (is_of(c, object))
            found = c;
        else if (load_relaxed(&c->state) == CODE_LOADED)
            unload(c);
    }
    if (!found)
        return add(object, address, is_first);
    if (load_relaxed(&found->state) != CODE_LOADED || load_relaxed(&found->link_map) != object->link_map) {
        store_relaxed(&found->link_map, object->link_map);
        set_state(found, CODE_LOADED);
    }
    return found;
}

static struct code *find_loaded(uintptr_t address)
{
    for (uint32_t i = 0, n = load_relaxed(&codes_end); i < n; i++)
        if (has_address(&codes[i], address) && load_relaxed(&codes[i].state) == CODE_LOADED)
            return &codes[i];
    return NULL;
}

/* Generated code at a place that is in the table: it has the range of the entry there, and no identity. False: the place is not
 * in the table. */
static bool find_generated(uintptr_t address, struct object *object)
{
    for (uint32_t i = 0, n = load_relaxed(&codes_end); i < n; i++)
        if (has_address(&codes[i], address)) {
            *object = (struct object){.start = codes[i].start, .bytes = codes[i].bytes};
            return true;
        }
    return false;
}

static bool is_same(const struct code *c, const struct object *object)
{
    return c->start == object->start && c->bytes == object->bytes && load_relaxed(&c->link_map) == object->link_map;
}

/* What is added to addresses in a range. */
struct shift {
    uintptr_t start, bytes;
    uint64_t by;
    bool is_unknown;
};

static struct shift shift_of(uintptr_t address)
{
    struct object object;
    struct code *c = find_loaded(address);
    bool is_object = object_find_quick(address, &object);
    if (!is_object && !find_generated(address, &object))
        return (struct shift){address, 1, 0, false};
    if (!c || !is_same(c, &object)) {
        if (is_object)
            object_find(address, &object);
        c = find_or_add(&object, address);
    }
    return (struct shift){object.start, object.bytes, c ? c->shown - c->start : 0, !c && !object.stays};
}

COLD void codes_translate(uintptr_t *return_addresses, uint32_t n)
{
    struct shift last = {0};
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t *at = &return_addresses[i];
        if (*at - 1 - last.start >= last.bytes)
            last = shift_of(*at - 1);
        *at = last.is_unknown ? CODES_UNKNOWN : *at + last.by;
    }
}

COLD void codes_add(uintptr_t address)
{
    struct object object;
    jespan_assert(lock_is_held(LOCK_TREE));
    if (object_find(address, &object))
        find_or_add(&object, address);
}

/* ---- What was unloaded ---- */

static bool is_there(const struct code *c, bool thoroughly)
{
    struct object object;
    bool is_object = thoroughly ? object_find(c->start, &object) : object_find_quick(c->start, &object);
    if (!c->identity)
        return !is_object;
    return is_object && is_same(c, &object) && (!thoroughly || c->identity == object.identity);
}

COLD void codes_look(bool thoroughly)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    for (uint32_t i = 0, n = load_relaxed(&codes_end); i < n; i++)
        if (load_relaxed(&codes[i].state) == CODE_LOADED && !is_there(&codes[i], thoroughly))
            unload(&codes[i]);
}

COLD bool codes_take_unloaded(uint64_t *start, uint64_t *end)
{
    for (uint32_t i = 0, n = load_relaxed(&codes_end); any_unloaded && i < n; i++) {
        if (load_relaxed(&codes[i].state) != CODE_FORGETTING)
            continue;
        set_state(&codes[i], CODE_UNLOADED);
        *start = codes[i].shown;
        *end = codes[i].shown + codes[i].bytes;
        return true;
    }
    any_unloaded = false;
    return false;
}
