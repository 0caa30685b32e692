/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites. */
#include "span/sites.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/constants.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "span/arena_conf.h"
#include "span/context_policy.h"

#define BUCKETS 1024
#define RECENT 64

static struct site *buckets[BUCKETS];
static _Atomic uint64_t truncated;
FIGURE_ROW(figure_truncated, "spans.stats.truncated", truncated, FIGURE_NUMBER);

size_t sites_cut(const char *s)
{
    size_t n = strnlen(s, JESPAN_MAX_STRING_BYTES + 1);
    if (n <= JESPAN_MAX_STRING_BYTES)
        return n;
    for (n = JESPAN_MAX_STRING_BYTES; n > JESPAN_MAX_STRING_BYTES - 4; n--)
        if ((s[n] & 0xc0) != 0x80) /* a UTF-8 character begins here */
            return n;
    return JESPAN_MAX_STRING_BYTES; /* the text is not UTF-8 */
}

size_t sites_bounded_length(const char *s)
{
    size_t n = sites_cut(s);
    if (s[n])
        sites_count_truncated();
    return n;
}

void sites_count_truncated(void)
{
    atomic_fetch_add_explicit(&truncated, 1, memory_order_relaxed);
}

static const char *copy_string(const char *s, size_t n)
{
    char *memory = meta_alloc(TEXT_MARGIN + n + 1 + TEXT_MARGIN), *copy = memory + TEXT_MARGIN;
    if (!memory)
        return NULL;
    memcpy(copy, s, n);
    state_copy(copy, n + 1);
    return copy;
}

static bool equals(const char *kept, const char *s, size_t n)
{
    return strncmp(kept, s, n) == 0 && kept[n] == '\0';
}

bool sites_is_kept_as(const char *kept, const char *text)
{
    return text ? equals(kept, text, sites_cut(text)) : !*kept;
}

/* The program's properties take precedence over the configuration. A JESPAN() block whose site has invalid properties has no
 * arena; jespan_open() returns an error for such a site. */
static bool keep_properties(struct site *s, const struct jespan_site *site)
{
    const struct jespan_arena *wanted = &site->arena;
    if (!arena_has_properties(wanted) && arena_conf_find(s->name))
        wanted = arena_conf_find(s->name);
    if (!arena_is_valid(wanted)) {
        policy_arena_refused();
        return true;
    }
    s->arena = *wanted;
    if (wanted->by_label)
        s->arena.by_label = copy_string(wanted->by_label, sites_cut(wanted->by_label));
    return !wanted->by_label || s->arena.by_label;
}

/* The texts that identify a site, cut to what is kept of them. */
struct texts {
    const char *of[3]; /* name, target, file */
    size_t bytes[3];
    uint32_t line;
};

static bool is_same(const struct site *s, const struct texts *t)
{
    return s->line == t->line && equals(s->name, t->of[0], t->bytes[0]) && equals(s->target, t->of[1], t->bytes[1]) &&
           equals(s->file, t->of[2], t->bytes[2]);
}

static struct site *make_site(const struct jespan_site *site, const struct texts *t, uint32_t hash)
{
    struct site *s = meta_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->hash = hash;
    s->line = t->line;
    s->name = copy_string(t->of[0], t->bytes[0]);
    s->target = copy_string(t->of[1], t->bytes[1]);
    s->file = copy_string(t->of[2], t->bytes[2]);
    s->name_bytes = (uint16_t)t->bytes[0];
    s->target_bytes = (uint16_t)t->bytes[1];
    s->file_bytes = (uint16_t)t->bytes[2];
    if (!s->name || !s->target || !s->file || !keep_properties(s, site))
        return NULL;
    STATE_COPY(*s);
    return s;
}

static struct site *find_or_make(const struct jespan_site *site, const struct texts *t)
{
    uint64_t whole_hash = HASH_START ^ t->line;
    for (int i = 0; i < 3; i++)
        whole_hash = hash_bytes(whole_hash, t->of[i], t->bytes[i]);
    uint32_t hash = hash_fold(whole_hash);
    struct site **bucket = &buckets[hash % BUCKETS];
    for (struct site *s = *bucket; s; s = s->next)
        if (s->hash == hash && is_same(s, t))
            return s;
    struct site *s = make_site(site, t, hash);
    if (!s)
        return NULL;
    s->next = *bucket;
    *bucket = s;
    return s;
}

/* `site` is in none of the recent places, or has a text that is NULL or too long. */
static struct site *find_again(struct site *recent, const struct jespan_site *site)
{
    struct texts t = {{site->name, site->target ? site->target : "", site->file ? site->file : ""}, {0}, site->line};
    for (int i = 0; i < 3; i++)
        t.bytes[i] = sites_bounded_length(t.of[i]);
    return recent && is_same(recent, &t) ? recent : find_or_make(site, &t);
}

bool sites_is_constant(const struct jespan_site *site)
{
    return constants_have(site, sizeof *site) && constants_have_text(site->name) &&
           (!site->target || constants_have_text(site->target)) && (!site->file || constants_have_text(site->file));
}

/* By the address of the program's site, which may have other contents by now if it is not `constant`. */
static struct recent {
    _Atomic(const struct jespan_site *) constant; /* NULL: it is none */
    _Atomic(struct site *) kept;
} recent[RECENT];

static struct recent *recent_of(const struct jespan_site *site)
{
    return &recent[(uintptr_t)site / sizeof *site % RECENT];
}

static const struct site *intern_in(struct recent *place, const struct jespan_site *site)
{
    struct site *kept = load_relaxed(&place->kept);
    if (kept && sites_is_whole_copy(kept, site))
        return kept;
    kept = find_again(kept, site);
    store_relaxed(&place->constant, NULL);
    atomic_thread_fence(memory_order_release); /* site_find() */
    store_relaxed(&place->kept, kept);
    store_release(&place->constant, kept && sites_is_constant(site) ? site : NULL);
    return kept;
}

const struct site *site_intern(const struct jespan_site *site)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct recent *place = recent_of(site);
    return likely(load_relaxed(&place->constant) == site) ? load_relaxed(&place->kept) : intern_in(place, site);
}

/* The copy of a constant site is always the same. */
const struct site *site_find(const struct jespan_site *site)
{
    struct recent *place = recent_of(site);
    if (load_acquire(&place->constant) != site)
        return NULL;
    const struct site *kept = load_relaxed(&place->kept);
    atomic_thread_fence(memory_order_acquire);
    return load_relaxed(&place->constant) == site ? kept : NULL;
}

uint64_t sites_truncated(void)
{
    return load_relaxed(&truncated);
}
