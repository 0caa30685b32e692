/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers: the rules of the configuration, the program's callback, and which of them decides. */
#include "span/sampler.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/forked.h"
#include "base/lock.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "span/labels.h"
#include "span/tree.h"

#define RULES_MAX (CONF_STRING_BYTES / 4) /* "a=1|" is the shortest */
#define NS_PER_S 1000000000u

_Atomic bool sampler_used;

static struct sampler_rule rules[RULES_MAX + 1]; /* the rule behind the last one is for all other sites */
static unsigned n_rules;
static WRITTEN_AT_FORK _Atomic uint64_t salt;

/* The callback and its argument are read together. The version is odd while they change, and differs afterwards.
 * Releases in sampler_set() pair with acquires in read_callback(). Written under LOCK_TREE. */
static _Atomic uint32_t callback_version;
static _Atomic(jespan_sampler_t *) callback;
static _Atomic(void *) callback_user;

/* ---- Rules ---- */

/* Ignores digits after the 18th. */
static int parse_probability(struct sampler_rule *rule, const char *text)
{
    const uint64_t one = 1000000000000000000u;
    uint64_t value = *text == '1' ? one : 0, unit = one;
    if (*text != '0' && *text != '1')
        return -EINVAL;
    if (*++text == '.' && text[1])
        for (text++; *text >= '0' && *text <= '9'; text++)
            value += (uint64_t)(*text - '0') * (unit /= 10);
    if (*text || value > one)
        return -EINVAL;
    rule->kind = value == one ? SAMPLER_ALWAYS : SAMPLER_PROBABILITY;
    rule->threshold = (uint64_t)(((unsigned __int128)value << 64) / one);
    return 0;
}

static int parse_rate(struct sampler_rule *rule, const char *text)
{
    uint64_t n = 0;
    for (; *text >= '0' && *text <= '9' && n <= UINT32_MAX; text++)
        n = 10 * n + (uint64_t)(*text - '0');
    if (strcmp(text, "/s") != 0 || n > UINT32_MAX)
        return -EINVAL;
    rule->kind = SAMPLER_RATE;
    rule->per_second = (uint32_t)n;
    return 0;
}

int sampler_parse(struct sampler_rule *rule, const char *text)
{
    bool always = !strcmp(text, "always");
    if (always || !strcmp(text, "never")) {
        rule->kind = always ? SAMPLER_ALWAYS : SAMPLER_NEVER;
        return 0;
    }
    if (*text < '0' || *text > '9')
        return -EINVAL;
    return strchr(text, '/') ? parse_rate(rule, text) : parse_probability(rule, text);
}

/* splitmix64. All threads use the same sequence, each from another place. */
static uint64_t draw(struct thread *t)
{
    uint64_t x = load_relaxed(&salt) + (uintptr_t)t * 0xd1342543de82ef95u + ++t->sampler_draws * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* `second` may lie before the budget's second, since another thread may have read the clock later. */
static bool take_from_budget(struct sampler_rule *rule, uint32_t second)
{
    uint64_t before = load_relaxed(&rule->budget), after;
    do {
        bool is_new = (int32_t)(second - (uint32_t)(before >> 32)) > 0;
        uint32_t used = is_new ? 0 : (uint32_t)before;
        if (used >= rule->per_second)
            return false;
        after = (is_new ? (uint64_t)second << 32 : before & ~(uint64_t)UINT32_MAX) | (used + 1);
    } while (!atomic_compare_exchange_weak_explicit(&rule->budget, &before, after, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

bool sampler_rule_decides(struct sampler_rule *rule, struct thread *t, uint32_t second)
{
    switch (rule->kind) {
    case SAMPLER_PROBABILITY:
        return draw(t) < rule->threshold;
    case SAMPLER_RATE:
        return take_from_budget(rule, second);
    default:
        return rule->kind == SAMPLER_ALWAYS;
    }
}

static struct sampler_rule *rule_for(const char *name)
{
    struct sampler_rule *rule = rules;
    while (rule < &rules[n_rules] && !pattern_fits(rule->name, name))
        rule++;
    return rule;
}

static bool configuration_decides(struct thread *t, const struct jespan_site *site)
{
    struct sampler_rule *rule = rule_for(site->name);
    uint32_t second = rule->kind == SAMPLER_RATE ? (uint32_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / NS_PER_S) : 0;
    return sampler_rule_decides(rule, t, second);
}

/* ---- The configuration ---- */

static const char expected[] =
    "is not always, never, a probability such as 0.01, or a rate such as 100/s, and is ignored";

/* Reads NAME=SAMPLER. NAME may contain '='. */
static void add_site_rule(char *item)
{
    char *equals = strrchr(item, '=');
    struct sampler_rule *rule = &rules[n_rules];
    if (!equals || equals == item)
        WARN("sampler_sites: '", item, "' is not NAME=SAMPLER and is ignored");
    else if (sampler_parse(rule, equals + 1))
        WARN("sampler_sites: '", item, "' ", expected);
    else {
        *equals = '\0';
        rule->name = item;
        n_rules++;
    }
}

static void boot_sites(void)
{
    static char text[CONF_STRING_BYTES];
    strcpy(text, conf.sampler_sites);
    char *rest = text;
    for (char *item; (item = list_take(&rest));)
        add_site_rule(item);
}

COLD void sampler_boot(void)
{
    sampler_after_fork();
    n_rules = 0;
    boot_sites();
    struct sampler_rule *rest = &rules[n_rules];
    *rest = (struct sampler_rule){.kind = SAMPLER_ALWAYS};
    if (sampler_parse(rest, conf.sampler))
        WARN("sampler: '", conf.sampler, "' ", expected);
    if (n_rules || rest->kind != SAMPLER_ALWAYS)
        store_relaxed(&sampler_used, true);
}

COLD void sampler_after_fork(void)
{
    store_relaxed(&salt, clock_ticks() * 0x2545f4914f6cdd1du);
}

/* ---- The callback ---- */

COLD void sampler_set(jespan_sampler_t *decide, void *user)
{
    lock(LOCK_TREE);
    uint32_t version = load_relaxed(&callback_version);
    store_relaxed(&callback_version, version + 1);
    store_release(&callback, decide);
    store_release(&callback_user, user);
    store_release(&callback_version, version + 2);
    if (decide)
        store_relaxed(&sampler_used, true);
    unlock(LOCK_TREE);
}

static jespan_sampler_t *read_callback(void **user)
{
    jespan_sampler_t *decide;
    uint32_t version;
    do {
        version = load_acquire(&callback_version);
        decide = load_acquire(&callback);
        *user = load_acquire(&callback_user);
    } while (version & 1 || load_relaxed(&callback_version) != version);
    return decide;
}

/* The program reads keys and values without a check, as spans take them. */
static size_t copy_valid(struct jespan_label *valid, const struct jespan_label *labels, size_t n_labels)
{
    size_t n = 0;
    for (size_t i = 0; i < n_labels && n < JESPAN_MAX_LABELS; i++)
        if (labels_is_valid(&labels[i]))
            valid[n++] = labels[i];
    return n;
}

/* The callback is not asked about spans that it opens itself. */
static bool callback_decides(struct thread *t, jespan_sampler_t *decide, void *user, const struct jespan_site *site,
                             const struct jespan_label *labels, size_t n_labels)
{
    struct jespan_label valid[JESPAN_MAX_LABELS];
    size_t n = copy_valid(valid, labels, n_labels);
    int saved = errno;
    t->sampler_asking = true;
    bool sampled = decide(site, valid, n, user) != 0;
    t->sampler_asking = false;
    errno = saved;
    return sampled;
}

/* ---- Decisions ---- */

static bool is_outside_spans(uint32_t context)
{
    context = tree_whole(context);
    return context == CONTEXT_ID_ROOT || contexts[context].kind == CONTEXT_THREAD;
}

/* The context in which the thread is cannot be recycled. Another one may be recycled at any time. */
static bool is_root_span(const struct thread *t, uint32_t parent)
{
    if (parent == t->tag)
        return is_outside_spans(parent);
    lock(LOCK_TREE);
    bool answer = tree_is_live(parent) && is_outside_spans(parent);
    unlock(LOCK_TREE);
    return answer;
}

bool sampler_declines(struct thread *t, jespan_context_t parent, const struct jespan_site *site,
                      const struct jespan_label *labels, size_t n_labels)
{
    void *user;
    if (!t)
        return false;
    if (parent == JESPAN_CURRENT)
        parent = t->tag;
    else if (parent == JESPAN_BASE)
        parent = t->base;
    if (parent == CONTEXT_ID_UNSAMPLED)
        return true;
    if (t->sampler_asking || !is_root_span(t, parent))
        return false;
    jespan_sampler_t *decide = read_callback(&user);
    return decide ? !callback_decides(t, decide, user, site, labels, n_labels) : !configuration_decides(t, site);
}

uint64_t sampler_unsampled(void)
{
    lock(LOCK_TREE);
    uint64_t n = load_relaxed(&contexts[CONTEXT_ID_UNSAMPLED].opens);
    unlock(LOCK_TREE);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        struct counters *c = counters_find(t, CONTEXT_ID_UNSAMPLED);
        n += c && counters_used_more(c) ? load_relaxed(&counters_more(c)->opens) >> OPENS_SHIFT : 0;
    }
    return n;
}
