// SPDX-License-Identifier: BSD-2-Clause
// jespan::region: containers whose memory comes from a region, and goes with it.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <jespan/jespan.hpp>

extern "C" int mallctl(const char *name, void *old, std::size_t *old_bytes, void *value, std::size_t bytes);

JESPAN_SITE_ARENA(words_site, "words", JESPAN_ARENA_REGION);
JESPAN_SITE(plain_site, "plain");
static int failures;

static void expect(const char *what, bool is)
{
    if (is)
        return;
    std::fprintf(stderr, "%s: is not so\n", what);
    failures++;
}

static std::uint64_t figure(const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    expect(name, mallctl(name, &value, &bytes, nullptr, 0) == 0);
    return value;
}

struct alignas(256) wide {
    char bytes[300];
};

static void fill(jespan::region &region)
{
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> counts{&region};
    for (int i = 0; i < 1000; i++)
        counts["a word that is too long for the string itself " + std::pmr::string(std::to_string(i), &region)].assign(i, 7);
    std::pmr::vector<wide> wides{20, &region};
    expect("aligned", reinterpret_cast<std::uintptr_t>(wides.data()) % 256 == 0);
    expect("at work", counts.size() == 1000);
}

/* Nothing of this is given back one by one. */
static void leave(jespan::region &region)
{
    for (int i = 0; i < 1000; i++)
        std::memset(region.allocate(1 + i), 1, 1 + i);
}

static void refuse(void)
{
    try {
        jespan::region region{plain_site};
        expect("a site that is no region's is refused", false);
    } catch (const std::system_error &error) {
        expect("EINVAL", error.code().value() == EINVAL);
    }
}

static void go(void)
{
    jespan::region region{words_site}, other{words_site};
    expect("equal to itself", region.is_equal(region) && !region.is_equal(other));
    fill(region);
    leave(region);
    leave(other);
    expect("live", figure("spans.all.inuse_bytes") > 900000);
}

static void none_to_be_had(void)
{
    jespan_site wrong{};
    try {
        jespan::region region{wrong};
        expect("thrown", false);
    } catch (const std::system_error &error) {
        expect("says why", error.code().value() == EINVAL);
    }
}

int main()
{
    refuse();
    go();
    std::uint64_t before = figure("spans.all.inuse_bytes");
    for (int i = 0; i < 10; i++)
        go();
    expect("all gone", figure("spans.all.inuse_bytes") == before);
    expect("released", figure("spans.stats.regions_released") == 22);
    none_to_be_had();
    return failures != 0;
}
