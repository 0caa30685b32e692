// SPDX-License-Identifier: BSD-2-Clause
// Limits that change meanwhile, and what must hold while all threads rest.
#include "regions_mix.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include <jespan/limit.h>
#include <jespan/snapshot.h>

#include "../support/family.h"

namespace mix {

// ---- Limits ----

// `otherwise` is the value if the context may be gone.
static std::uint64_t figure_of(jespan_context_t context, const char *leaf, std::uint64_t otherwise = 0)
{
    char name[96];
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    std::snprintf(name, sizeof name, "spans.%u.%s", static_cast<unsigned>(context), leaf);
    return F(mallctl)(name, &value, &bytes, nullptr, 0) ? otherwise : value;
}

static few<jespan_context_t, 200> limited; // for the thread that sets limits; while all rest, for the main thread

static bool was_limited(jespan_context_t context)
{
    for (jespan_context_t one : limited)
        if (one == context)
            return true;
    return false;
}

static void set_limit(random_numbers &r, jespan_context_t context)
{
    std::uint64_t most = r(20) ? 1 << (14 + r(12)) : figure_of(context, "total.inuse_bytes") / 2 + 1;
    std::uint64_t hard = r(4) ? most : 0, soft = r(2) ? hard / 2 + r(1000) * (hard == 0) : 0;
    if (!context || context == JESPAN_ROOT || context == cache || (!was_limited(context) && limited.size() == 200))
        return;
    int error = jespan_set_limit(context, soft, hard);
    EXPECT(error == 0 || error == EINVAL); // the context may be gone
    if (!error && !was_limited(context))
        limited.push_back(context);
}

void *change_limits(void *)
{
    random_numbers r{first_seed + 4711};
    jespan_context_t server_context = jespan_current();
    if (!jespan_enter(server)) {
        server_context = jespan_current();
        jespan_exit(server);
    }
    while (!over) {
        EXPECT(figure_of(cache, "limit_inuse_bytes", UINT64_MAX) <= cache_bytes);
        if (limits_change)
            set_limit(r, r(10) ? recent[r(recent_contexts)].load() : server_context);
        if (rest) {
            resting++;
            while (rest)
                usleep(200);
            resting--;
        }
        usleep(static_cast<useconds_t>(r(2000)));
    }
    return nullptr;
}

void remove_limits()
{
    for (jespan_context_t context : limited)
        EXPECT(jespan_set_limit(context, 0, 0) == 0 || figure_of(context, "limit_hard") == 0);
    limited.n = 0;
    EXPECT(figure("spans.stats.limits") == 1); // that of the cache
}

// ---- At rest ----

static std::uint64_t jemalloc_bytes()
{
    std::uint64_t any = 1;
    EXPECT(F(mallctl)("epoch", nullptr, nullptr, &any, sizeof any) == 0);
    return figure("stats.allocated") - figure("stats.arenas." ARENAS_ALL ".tcache_bytes") -
           figure("stats.arenas." ARENAS_ALL ".internal");
}

namespace {
struct owned {
    std::uint64_t objects, bytes;
};
} // namespace

static owned in_table(jespan_context_t context)
{
    owned sum{};
    for (auto &slot : table) {
        head h;
        void *p = slot;
        if (p)
            std::memcpy(&h, p, sizeof h);
        if (p && h.owner == context) {
            sum.objects++;
            sum.bytes += F(malloc_usable_size)(p);
        }
    }
    return sum;
}

static const char *text_of(jespan_context_t context, const char *leaf)
{
    char name[64];
    const char *text = "";
    std::size_t bytes = sizeof text;
    std::snprintf(name, sizeof name, "spans.%u.%s", static_cast<unsigned>(context), leaf);
    F(mallctl)(name, &text, &bytes, nullptr, 0);
    return text;
}

// Exceptions that are set aside may be in the context of any region.
static void check_context(jespan_context_t context, owned figures, bool is_aside)
{
    if (std::strcmp(text_of(context, "kind"), "span") != 0 || contexts_are_shared())
        return; // it also has the program's own memory
    const char *name = text_of(context, "name");
    owned model = in_table(context);
    std::uint64_t objects = figures.objects, bytes = figures.bytes;
    bool is_exact = !is_aside || !std::strcmp(name, "cache") || !std::strcmp(name, "tenant") || !std::strcmp(name, "server");
    if (is_exact ? objects != model.objects || bytes != model.bytes : objects < model.objects || bytes < model.bytes) {
        std::fprintf(stderr, "%s (%u): %llu objects of %llu bytes, not %llu of %llu\n", name, static_cast<unsigned>(context),
                     static_cast<unsigned long long>(objects), static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(model.objects), static_cast<unsigned long long>(model.bytes));
        failures++;
    }
}

// All rows are of one snapshot: where ages are kept, mallctl() takes one for each figure.
void check_books()
{
    static std::uint32_t ids[1 << 17];
    std::size_t bytes = sizeof ids;
    std::uint64_t any = 1;
    EXPECT(F(mallctl)("spans.epoch", nullptr, nullptr, &any, sizeof any) == 0);
    EXPECT(F(mallctl)("spans.ids", ids, &bytes, nullptr, 0) == 0);
    std::uint64_t sum = figure("spans.retired.inuse_bytes"), all = figure("spans.all.inuse_bytes");
    bool is_aside = figure("spans.stats.regions_set_aside") != 0;
    jespan_snapshot_t *snapshot = jespan_snapshot_take();
    for (std::size_t i = 0; i < bytes / sizeof *ids; i++) {
        const jespan_row_t *row = snapshot ? jespan_snapshot_find(snapshot, ids[i]) : nullptr;
        EXPECT(row);
        if (!row)
            continue;
        owned figures{jespan_row_figure(row, JESPAN_INUSE_OBJECTS), jespan_row_figure(row, JESPAN_INUSE_BYTES)};
        sum += figures.bytes;
        check_context(ids[i], figures, is_aside);
    }
    jespan_snapshot_free(snapshot);
    std::uint64_t known = all + figure("spans.stats.pending_bytes"), theirs = jemalloc_bytes();
    if (sum != all || known != theirs) {
        std::fprintf(stderr, "sum %llu, all %llu, with what threads keep %llu, jemalloc %llu\n", static_cast<unsigned long long>(sum),
                     static_cast<unsigned long long>(all), static_cast<unsigned long long>(known), static_cast<unsigned long long>(theirs));
        failures++;
    }
}

static void check_limit(jespan_context_t context)
{
    std::uint64_t inuse = figure_of(context, "limit_inuse_bytes", UINT64_MAX), total = figure_of(context, "total.inuse_bytes");
    if (inuse != UINT64_MAX && inuse != total) {
        std::fprintf(stderr, "%s (%u): %llu by its limit, %llu in use\n", text_of(context, "name"), static_cast<unsigned>(context),
                     static_cast<unsigned long long>(inuse), static_cast<unsigned long long>(total));
        failures++;
    }
}

void check_limits()
{
    for (jespan_context_t context : limited)
        check_limit(context);
    check_limit(cache);
}

void expect_empty()
{
    for (auto &p : table)
        drop(p.exchange(nullptr));
    tidy();
    EXPECT(figure("spans.stats.regions_set_aside") == 0);
    for (std::uint64_t i = 1; i <= figure("spans.arenas.count"); i++) {
        char name[64];
        std::snprintf(name, sizeof name, "spans.arenas.%u.inuse_objects", static_cast<unsigned>(i));
        if (figure(name) != 0) {
            std::fprintf(stderr, "%s: %llu (seed %llu)\n", name, static_cast<unsigned long long>(figure(name)),
                         static_cast<unsigned long long>(first_seed));
            failures++;
        }
    }
    check_books();
}

} // namespace mix
