// SPDX-License-Identifier: BSD-2-Clause
// Objects that name their contents and their owner, so that any thread can check them.
#include "regions_mix.h"

#include <cerrno>
#include <cstring>

#include "../support/family.h"

namespace mix {

static unsigned char at(std::uint64_t seed, std::size_t i)
{
    return static_cast<unsigned char>(seed + i * 7 + (i >> 9));
}

// Fills all bytes of a small object and some bytes of a large one.
static std::size_t step_of(std::size_t bytes)
{
    return bytes < 600 ? 1 : bytes / 97;
}

static void *fill(void *p, std::size_t bytes, std::uint64_t seed)
{
    if (!p)
        return nullptr;
    head h{bytes, seed, JESPAN_INVALID};
    std::memcpy(p, &h, sizeof h);
    auto *text = static_cast<unsigned char *>(p);
    for (std::size_t i = sizeof h; i < bytes; i += step_of(bytes))
        text[i] = at(seed, i);
    text[bytes - 1] = at(seed, bytes - 1);
    return p;
}

void check(const void *p)
{
    head h;
    std::memcpy(&h, p, sizeof h);
    const auto *text = static_cast<const unsigned char *>(p);
    bool right = h.bytes >= sizeof h + 1 && h.bytes < (64 << 20) && F(malloc_usable_size)(const_cast<void *>(p)) >= h.bytes;
    for (std::size_t i = sizeof h; right && i < h.bytes; i += step_of(h.bytes))
        right = text[i] == at(h.seed, i);
    if (!right) {
        std::fprintf(stderr, "%p: %zu bytes, usable %zu, owner %u\n", p, h.bytes, F(malloc_usable_size)(const_cast<void *>(p)), h.owner);
        std::abort();
    }
}

static std::size_t size_from(random_numbers &r)
{
    std::size_t kind = r(200);
    return sizeof(head) + 1 + (kind == 0 ? r(4 << 20) : kind < 10 ? r(60000) : kind < 60 ? r(4000) : r(300));
}

bool contexts_are_shared()
{
    return figure("spans.stats.overflow") != 0;
}

std::uint64_t figure(const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    EXPECT(F(mallctl)(name, &value, &bytes, nullptr, 0) == 0);
    return value;
}

// Whether a limit may have refused.
static bool may_refuse()
{
    return errno == ENOMEM && (limits_change || jespan_current() == cache);
}

void *make(random_numbers &r)
{
    std::size_t bytes = size_from(r);
    void *p;
    switch (r(8)) {
    case 0:
        p = F(calloc)(1, bytes);
        break;
    case 1:
        p = F(aligned_alloc)(std::size_t{16} << r(9), bytes);
        break;
    case 2:
        p = F(mallocx)(bytes, r(2) ? (-1 + 2) << 8 : 0); // MALLOCX_TCACHE_NONE
        break;
    default:
        p = F(malloc)(bytes);
    }
    EXPECT(p || may_refuse());
    return fill(p, bytes, r(1 << 30));
}

void drop(void *p)
{
    if (p)
        check(p);
    F(free)(p);
}

void *resize(random_numbers &r, void *p)
{
    head h;
    check(p);
    std::memcpy(&h, p, sizeof h);
    std::size_t bytes = size_from(r), kept = bytes < h.bytes ? bytes : h.bytes;
    auto *q = static_cast<unsigned char *>(r(3) ? F(realloc)(p, bytes) : F(rallocx)(p, bytes, 0));
    if (!q) {
        EXPECT(may_refuse());
        check(p);
        return p;
    }
    for (std::size_t i = sizeof h; i < kept; i += step_of(h.bytes))
        if (i + 1 != h.bytes && q[i] != at(h.seed, i))
            std::abort();
    return fill(q, bytes, r(1 << 30));
}

// Objects outside of regions. Any thread may take any of them. Limits decide whether resizing changes the owner, so a resized object is
// credited again.
void hand_out(random_numbers &r, void *p, jespan_context_t owner)
{
    if (p && owner == JESPAN_INVALID) {
        owner = r(2) ? cache : JESPAN_ROOT;
        if (jespan_credit(p, owner)) {
            EXPECT(owner == cache);
            owner = JESPAN_ROOT;
            EXPECT(jespan_credit(p, owner) == 0);
        }
    }
    if (p)
        std::memcpy(static_cast<char *>(p) + offsetof(head, owner), &owner, sizeof owner);
    drop(table[r(table_size)].exchange(p));
}

} // namespace mix
