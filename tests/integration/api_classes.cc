// SPDX-License-Identifier: BSD-2-Clause
// For api.sh: the classes of <jespan/jespan.hpp>, each with the figures that it leaves.
#include <jespan/jespan.hpp>
#include <jespan/mallctl.h>

#include <malloc.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

static int failures;

#define IS(expression, expected) is(__LINE__, #expression, static_cast<long long>(expression), static_cast<long long>(expected))

static void is(int line, const char *what, long long value, long long expected)
{
    if (value == expected)
        return;
    std::fprintf(stderr, "api_classes: line %d: %s is %lld, not %lld\n", line, what, value, expected);
    failures++;
}

static long long figure(jespan_context_t context, const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    char path[100];
    std::snprintf(path, sizeof path, "spans.%u.%s", context, name);
    return mallctl(path, &value, &bytes, nullptr, 0) == 0 ? static_cast<long long>(value) : -1;
}

static std::string labels_of(jespan_context_t context)
{
    char text[1000];
    std::size_t bytes = sizeof text;
    std::string path = "spans." + std::to_string(context) + ".labels";
    if (mallctl(path.c_str(), text, &bytes, nullptr, 0) != 0)
        return "none";
    return {text, bytes};
}

JESPAN_SITE(job_site, "job");
JESPAN_SITE(part_site, "part");
JESPAN_SITE(cache_site, "cache");
JESPAN_SITE_ARENA(region_site, "words", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(refusing_site, "refusing", JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE);

static jespan_context_t context_of(const jespan::span &span)
{
    jespan::scope scope{span};
    return jespan_current();
}

// A span that is moved is one span, which its last owner closes.
static void spans_move()
{
    jespan_context_t job;
    {
        jespan::span outer;
        IS(bool(outer), false);
        {
            jespan::span inner{job_site};
            job = context_of(inner);
            outer = std::move(inner);
            IS(bool(inner), false);
        }
        IS(figure(job, "opens"), 1);
        IS(figure(job, "open"), 1);
        jespan::span other{std::move(outer)};
        IS(figure(job, "open"), 1);
        other = jespan::span{job_site};
        IS(figure(job, "opens"), 2);
        IS(figure(job, "open"), 1);
        jespan_span_t *open = other.release();
        IS(bool(other), false);
        IS(figure(job, "open"), 1);
        jespan::span again{open};
        IS(again.close(), 0);
        IS(figure(job, "open"), 0);
        IS(jespan_close(open), EINVAL);
        IS(again.add_label({"key", 1}), EINVAL);
    }
    IS(figure(job, "open"), 0);
}

static void scopes_end_with_their_block()
{
    jespan_context_t before = jespan_current(), job, part = 0;
    jespan::span span{job_site};
    void *in_job, *in_part = nullptr;
    try {
        jespan::scope scope{span};
        job = jespan_current();
        in_job = std::malloc(1000);
        jespan::scope inner{part_site, {{"n", 1}}};
        part = jespan_current();
        in_part = std::malloc(3000);
        throw std::runtime_error{"both end"};
    } catch (const std::runtime_error &) {
    }
    IS(jespan_current(), before);
    IS(figure(part, "parent"), job);
    IS(figure(part, "inuse_bytes") >= static_cast<long long>(malloc_usable_size(in_part)), true);
    IS(figure(job, "inuse_bytes"), malloc_usable_size(in_job));
    IS(figure(job, "open"), 1);
    IS(figure(part, "open"), 0);
    std::free(in_job);
    std::free(in_part);
    IS(figure(job, "inuse_objects"), 0);
    jespan::scope none{jespan::span{}};
    IS(jespan_current(), before);
}

// A std::string_view need not end with a NUL. Labels that are added later make another context.
static void labels_have_their_values()
{
    std::string_view route = std::string_view{"/look?page=1"}.substr(0, 5);
    jespan::span span{job_site, {{"route", route}, {"shard", -7}, {"text", std::string{"7"}}, {"literal", "x"}}};
    jespan_context_t without = context_of(span);
    IS(labels_of(without) == std::string("route\0/look\0shard\0-7\0text\0" "7\0literal\0x\0", 38), true);
    IS(span.add_label({"tenant", "acme"}), 0);
    jespan_context_t with = context_of(span);
    IS(with != without, true);
    IS(labels_of(with).find(std::string("tenant\0acme\0", 12)) != std::string::npos, true);
    jespan::span longest{job_site, {{"long", std::string(1000, 'x')}}};
    IS(labels_of(context_of(longest)).size(), 5 + 255 + 1);
    errno = 0;
    jespan::span wrong{job_site, {{"key", static_cast<const char *>(nullptr)}}};
    IS(bool(wrong), false);
    IS(errno, EINVAL);
}

static void *(*volatile const wipe)(void *, int, std::size_t) = std::memset;

// A string that is no longer there when it is over.
struct passing {
    char text[8];
    explicit passing(const char *what) { std::snprintf(text, sizeof text, "%s", what); }
    ~passing() { wipe(text, 'x', sizeof text - 1); }
};

// The arguments of a macro may be temporary, as those of a function.
static void macros_read_temporary_strings()
{
    JESPAN("pairs", "one", passing{"7"}.text, "two", passing{"seven"}.text);
    IS(labels_of(jespan_current()) == std::string("one\0" "7\0two\0seven\0", 16), true);
    {
        JESPAN_WITH("typed", JESPAN_LABEL("one", passing{"8"}.text), JESPAN_LABEL("two", passing{"eight"}.text));
        IS(labels_of(jespan_current()) == std::string("one\0" "8\0two\0eight\0", 16), true);
    }
    // Nothing is entered where an argument throws.
    jespan_context_t before = jespan_current();
    try {
        JESPAN("none", "key", std::string{"short"}.substr(9).c_str());
    } catch (const std::out_of_range &) {
    }
    IS(jespan_current(), before);
}

static void attachments_end_with_their_block()
{
    jespan_context_t before = jespan_current();
    jespan::span span{job_site, {{"of", "attachment"}}};
    jespan_context_t job = context_of(span);
    void *p;
    errno = EDOM;
    {
        jespan::attachment attachment{job};
        IS(bool(attachment), true);
        IS(jespan_current(), job);
        p = std::malloc(100);
        jespan::attachment none{JESPAN_INVALID};
        IS(bool(none), false);
        IS(jespan_current(), job);
    }
    IS(errno, EDOM);
    IS(jespan_current(), before);
    IS(figure(job, "inuse_bytes"), malloc_usable_size(p));
    std::free(p);
}

static void limits_hold_as_long_as_they_live()
{
    jespan::span span{job_site, {{"of", "limit"}}};
    jespan_context_t job = context_of(span);
    {
        jespan::scope scope{span};
        jespan::limit limit{JESPAN_CURRENT, 1 << 19, 1 << 20};
        IS(bool(limit), true);
        IS(figure(job, "limit_soft"), 1 << 19);
        IS(figure(job, "limit_hard"), 1 << 20);
        void *volatile p = std::malloc(2 << 20);
        IS(p == nullptr, true);
        std::free(p);
    }
    IS(figure(job, "limit_hard"), 0);
    jespan::limit wrong{job, 2, 1};
    IS(wrong.error(), EINVAL);
    IS(bool(wrong), false);
}

// jespan's own context has no limit, nor have contexts below it.
static void none_of_jespans_own()
{
    jespan_context_t own = 0;
    for (jespan_context_t id = 1; id < 10 && own == 0; id++) {
        const char *kind = nullptr;
        std::size_t bytes = sizeof kind;
        std::string path = "spans." + std::to_string(id) + ".kind";
        if (mallctl(path.c_str(), &kind, &bytes, nullptr, 0) == 0 && std::string_view{kind} == "jespan")
            own = id;
    }
    IS(own != 0, true);
    jespan::span child{job_site, {}, own}, grandchild{part_site, {}, context_of(child)};
    IS(jespan_set_limit(own, 0, 1), EINVAL);
    IS(jespan_set_limit(context_of(child), 0, 1), EINVAL);
    IS(jespan_set_limit(context_of(grandchild), 0, 1), EINVAL);
}

static void resources_credit_one_context()
{
    jespan::span cache{cache_site}, job{job_site, {{"of", "resource"}}};
    jespan_context_t to = context_of(cache), from = context_of(job);
    jespan::resource resource{to}, other{from};
    IS(resource.is_equal(other), true);
    {
        jespan::scope scope{job};
        std::pmr::vector<char> kept(5000, 'x', &resource);
        IS(figure(to, "inuse_objects"), 1);
        IS(figure(to, "inuse_bytes"), malloc_usable_size(kept.data()));
        IS(figure(from, "alloc_objects"), 0);
        void *aligned = resource.allocate(100, 4096);
        IS(reinterpret_cast<std::uintptr_t>(aligned) % 4096, 0);
        resource.deallocate(aligned, 100, 4096);
    }
    IS(figure(to, "inuse_objects"), 0);
}

static void regions_free_all()
{
    jespan_context_t words;
    {
        jespan::region region{region_site};
        jespan_enter(region.span());
        words = jespan_current();
        jespan_exit(region.span());
        std::pmr::vector<std::pmr::string> list{&region};
        for (int i = 0; i < 100; i++)
            list.emplace_back("a string that does not fit into a std::string");
        IS(figure(words, "inuse_objects") >= 101, true);
        for (int i = 0; i < 100; i++)
            std::memset(region.allocate(1000), i, 1000); // never given back
        IS(figure(words, "inuse_bytes") >= 100 * 1000, true);
    }
    IS(figure(words, "inuse_objects"), 0);
    int error = 0;
    try {
        jespan::region none{jespan_site{}};
    } catch (const std::system_error &e) {
        error = e.code().value();
    }
    IS(error, EINVAL);
}

// A destructor cannot refuse: the region is set aside, and its survivor stays.
static void survivors_stay()
{
    jespan_context_t refusing;
    char *survivor;
    {
        jespan::span span{refusing_site};
        {
            jespan::scope scope{span};
            refusing = jespan_current();
            survivor = static_cast<char *>(std::calloc(1, 100));
        }
        IS(jespan_credit(survivor, JESPAN_ROOT), 0);
        IS(span.close(), EBUSY);
        IS(bool(span), true);
    }
    IS(figure(refusing, "open"), 0);
    IS(survivor[99], 0);
    std::free(survivor);
}

int main()
{
    spans_move();
    scopes_end_with_their_block();
    labels_have_their_values();
    macros_read_temporary_strings();
    attachments_end_with_their_block();
    limits_hold_as_long_as_they_live();
    none_of_jespans_own();
    resources_credit_one_context();
    regions_free_all();
    survivors_stay();
    return failures != 0;
}
