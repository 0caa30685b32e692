/* SPDX-License-Identifier: BSD-2-Clause */
/* The key `arena`: NAME[=PROPERTY+PROPERTY…]|NAME…, where NAME may be a pattern. */
#include "span/arena_conf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "conf/conf.h"

#define RULES_MAX 64

static char texts[CONF_STRING_BYTES]; /* rules point to names and keys of labels in it */
static struct rule {
    const char *name;
    struct jespan_arena arena;
} rules[RULES_MAX];
static size_t n_rules;

static const struct {
    const char *word;
    uint32_t flag;
} words[] = {
    {"off", JESPAN_ARENA_NONE},          {"alone", JESPAN_ARENA_ALONE},     {"dontdump", JESPAN_ARENA_DONTDUMP},
    {"dontfork", JESPAN_ARENA_DONTFORK}, {"locked", JESPAN_ARENA_LOCKED},   {"guarded", JESPAN_ARENA_GUARDED},
    {"wiped", JESPAN_ARENA_WIPED},       {"huge", JESPAN_ARENA_HUGE},       {"nohuge", JESPAN_ARENA_NOHUGE},
};

#define OWN_ARENA (JESPAN_ARENA | JESPAN_ARENA_REGION)
#define OF_REGIONS (JESPAN_ARENA_REFUSE | JESPAN_ARENA_RELEASE)
#define OF_ARENAS                                                                                                        \
    (JESPAN_ARENA_ALONE | JESPAN_ARENA_DONTDUMP | JESPAN_ARENA_DONTFORK | JESPAN_ARENA_LOCKED | JESPAN_ARENA_GUARDED |   \
     JESPAN_ARENA_WIPED | JESPAN_ARENA_HUGE | JESPAN_ARENA_NOHUGE | JESPAN_ARENA_NUMA | JESPAN_ARENA_DECAY)

bool arena_is_valid(const struct jespan_arena *arena)
{
    static const uint32_t opposites[] = {JESPAN_ARENA_HUGE | JESPAN_ARENA_NOHUGE, OF_REGIONS};
    uint32_t flags = arena->flags;
    for (size_t i = 0; i < sizeof opposites / sizeof *opposites; i++)
        if ((flags & opposites[i]) == opposites[i])
            return false;
    if (!(flags & OWN_ARENA))
        return !(flags & ~JESPAN_ARENA_NONE) && !arena->limit_bytes && !arena->by_label;
    if (flags & OF_REGIONS && !(flags & JESPAN_ARENA_REGION))
        return false;
    return !(flags & ~(OWN_ARENA | OF_ARENAS | OF_REGIONS)) && !(flags & JESPAN_ARENA_NUMA && arena->numa_node < 0);
}

/* Reads a whole number, perhaps negative. */
static bool read_number(const char *text, int64_t *n)
{
    char *end;
    *n = strtoll(text, &end, 10);
    return end != text && !*end;
}

/* Reads DIRTY or DIRTY/MUZZY, in milliseconds; −1: never. */
static bool read_decay(char *text, struct jespan_arena *arena)
{
    char *muzzy = strchr(text, '/');
    if (muzzy)
        *muzzy++ = '\0';
    bool ok = read_number(text, &arena->dirty_decay_ms) && arena->dirty_decay_ms >= -1 &&
              read_number(muzzy ? muzzy : text, &arena->muzzy_decay_ms) && arena->muzzy_decay_ms >= -1;
    arena->flags |= ok ? JESPAN_ARENA_DECAY : 0;
    return ok;
}

static bool read_node(const char *text, struct jespan_arena *arena)
{
    int64_t node;
    if (!read_number(text, &node) || node < 0 || node > INT32_MAX)
        return false;
    arena->flags |= JESPAN_ARENA_NUMA;
    arena->numa_node = (int32_t)node;
    return true;
}

static bool read_limit(const char *text, struct jespan_arena *arena)
{
    bool ok = !bytes_parse(text, &arena->limit_bytes) && arena->limit_bytes;
    if (!ok)
        arena->limit_bytes = 0;
    return ok;
}

static bool read_property(char *property, struct jespan_arena *arena)
{
    if (!strncmp(property, "decay:", 6))
        return read_decay(property + 6, arena);
    if (!strncmp(property, "node:", 5))
        return read_node(property + 5, arena);
    if (!strncmp(property, "limit:", 6))
        return read_limit(property + 6, arena);
    if (!strncmp(property, "by:", 3) && property[3]) {
        arena->by_label = property + 3;
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(property, words[i].word)) {
            arena->flags |= words[i].flag;
            return true;
        }
    return false;
}

static void read_properties(struct rule *rule, char *text, conf_wrong_item *wrong, const char *key)
{
    char item[CONF_STRING_BYTES];
    for (char *property; (property = strsep(&text, "+"));) {
        stpcpy(stpcpy(stpcpy(item, rule->name), "="), property);
        if (!read_property(property, &rule->arena))
            wrong(key, item, "is not a known property or has a bad value");
    }
}

static void read_rule(char *text, conf_wrong_item *wrong, const char *key)
{
    if (*text == '=') {
        wrong(key, text, "has no name");
        return;
    }
    struct rule rule = {.name = strsep(&text, "="), .arena.flags = JESPAN_ARENA};
    if (n_rules == RULES_MAX) {
        wrong(key, rule.name, "comes after 64 others, which is the most");
        return;
    }
    read_properties(&rule, text, wrong, key);
    if (rule.arena.flags == (JESPAN_ARENA | JESPAN_ARENA_NONE))
        rule.arena.flags = JESPAN_ARENA_NONE;
    if (arena_is_valid(&rule.arena))
        rules[n_rules++] = rule;
    else
        wrong(key, rule.name, "has properties that contradict each other");
}

COLD void arena_conf_read(const char *list, conf_wrong_item *wrong, const char *key)
{
    char *rest = strcpy(texts, list);
    n_rules = 0;
    for (char *rule; (rule = list_take(&rest));)
        read_rule(rule, wrong, key);
}

const struct jespan_arena *arena_conf_find(const char *name)
{
    for (const struct rule *rule = rules; rule < rules + n_rules; rule++)
        if (pattern_fits(rule->name, name))
            return &rule->arena;
    return NULL;
}
