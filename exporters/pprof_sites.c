/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes sites as pprof's functions and locations. */
#include "pprof_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "exporter_memory.h"
#include "profile.pb-c.h"

/* The identity of a site: string indices and the line. Its bytes are hashed, so it has no padding. */
struct site_key {
    uint32_t name, target, file, line;
};

struct pprof_site {
    struct site_key key;
    uint64_t address;
};

void pprof_sites_init(struct pprof_sites *sites, struct pprof_strings *strings)
{
    memset(sites, 0, sizeof *sites);
    sites->out = strings->out;
    sites->index.memory = sites->addresses.memory = strings->index.memory;
    sites->strings = strings;
}

void pprof_sites_free(struct pprof_sites *sites)
{
    hash_index_free(&sites->index);
    hash_index_free(&sites->addresses);
    exporter_memory_give(sites->index.memory, sites->items);
}

/* Returns the string index of "target::name", or 0 without a target. pprof takes a system name that equals the name
 * for a mangled one, and edits the parts that look like C++. */
static int64_t system_name(struct pprof_sites *sites, const char *name, const char *target)
{
    if (target[0] == '\0')
        return 0;
    size_t bytes = strlen(target) + strlen(name) + sizeof "::";
    char *text = exporter_memory_take(sites->index.memory, 1, bytes);
    if (!text) {
        pprof_out_fail(sites->out, -ENOMEM);
        return 0;
    }
    snprintf(text, bytes, "%s::%s", target, name);
    int64_t index = pprof_strings_append(sites->strings, text);
    exporter_memory_give(sites->index.memory, text);
    return index;
}

static void write_site(struct pprof_out *out, uint32_t id, const struct pprof_site *item, int64_t system)
{
    const struct site_key *site = &item->key;
    JespanPprof__Function function = JESPAN_PPROF__FUNCTION__INIT, *functions = &function;
    function.id = id;
    function.name = site->name;
    function.system_name = system;
    function.filename = site->file;
    function.start_line = site->line;
    JespanPprof__Line line = JESPAN_PPROF__LINE__INIT, *lines = &line;
    line.function_id = id;
    line.line = site->line;
    JespanPprof__Location location = JESPAN_PPROF__LOCATION__INIT, *locations = &location;
    location.id = id;
    location.mapping_id = PPROF_SITES_MAPPING_ID;
    location.address = item->address;
    location.n_line = 1;
    location.line = &lines;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_function = 1;
    part.function = &functions;
    part.n_location = 1;
    part.location = &locations;
    pprof_out_message(out, &part.base);
}

static bool is_site(const void *owner, uint32_t position, const void *key)
{
    const struct pprof_sites *sites = owner;
    return memcmp(&sites->items[position].key, key, sizeof sites->items[position].key) == 0;
}

/* ---- Addresses ---- */

/* The NUL counts too, so that "ab", "c" and "a", "bc" differ. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t wanted_address(const char *name, const char *target, const char *file, uint32_t line)
{
    uint64_t hash = hash_text(hash_text(hash_text(HASH_START, name), target), file) ^ line;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
    return PPROF_SITES_START + (hash ^ hash >> 32) % (PPROF_SITES_LIMIT - PPROF_SITES_START);
}

static bool is_address(const void *owner, uint32_t position, const void *key)
{
    const struct pprof_sites *sites = owner;
    return sites->items[position].address == *(const uint64_t *)key;
}

/* Gives the next site this address, or the first free one after it. With 100,000 sites, one program in a million has
 * two sites with the same first choice. Returns 0 or -ENOMEM. */
static int take_address(struct pprof_sites *sites, uint64_t address)
{
    for (;; address = address + 1 < PPROF_SITES_LIMIT ? address + 1 : PPROF_SITES_START) {
        uint32_t hash = hash_fold(hash_bytes(HASH_START, &address, sizeof address));
        if (hash_index_find(&sites->addresses, hash, is_address, sites, &address) != HASH_INDEX_NONE)
            continue;
        sites->items[sites->n].address = address;
        return hash_index_add(&sites->addresses, hash, sites->n);
    }
}

/* ---- Sites ---- */

static int reserve(struct pprof_sites *sites)
{
    if (sites->n < sites->capacity)
        return 0;
    uint32_t capacity = sites->capacity == 0 ? 64 : sites->capacity * 2;
    struct pprof_site *items =
        capacity == 0 ? NULL : exporter_memory_grow(sites->index.memory, sites->items, sites->capacity * sizeof *items,
                                                 capacity * sizeof *items);
    if (!items)
        return -ENOMEM;
    sites->items = items;
    sites->capacity = capacity;
    return 0;
}

uint32_t pprof_sites_location(struct pprof_sites *sites, const char *name, const char *target, const char *file,
                              uint32_t line)
{
    if (name[0] == '\0')
        name = "(unnamed)";
    struct site_key key = {
        .name = (uint32_t)pprof_strings_intern(sites->strings, name),
        .target = (uint32_t)pprof_strings_intern(sites->strings, target),
        .file = (uint32_t)pprof_strings_intern(sites->strings, file),
        .line = line,
    };
    uint32_t hash = hash_fold(hash_bytes(HASH_START, &key, sizeof key));
    uint32_t position = hash_index_find(&sites->index, hash, is_site, sites, &key);
    if (position != HASH_INDEX_NONE)
        return position + 1;
    int error = reserve(sites);
    if (error == 0)
        error = hash_index_add(&sites->index, hash, sites->n);
    if (error == 0) {
        sites->items[sites->n].key = key;
        error = take_address(sites, wanted_address(name, target, file, line));
    }
    if (error) {
        pprof_out_fail(sites->out, error);
        return 1; /* nothing more is written */
    }
    write_site(sites->out, sites->n + 1, &sites->items[sites->n], system_name(sites, name, target));
    return ++sites->n;
}
