// SPDX-License-Identifier: BSD-2-Clause
// Regions that a C++ exception leaves: the exception lives, with all that belongs to it, as long as somebody holds it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <jespan/jespan.hpp>

extern "C" int mallctl(const char *name, void *old, std::size_t *old_bytes, void *value, std::size_t bytes);

JESPAN_SITE_ARENA(region_site, "region", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(other_site, "other", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(releasing_site, "releasing", JESPAN_ARENA_REGION | JESPAN_ARENA_RELEASE);
JESPAN_SITE_ARENA(refusing_site, "refusing", JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE);
static int failures;
static const char *const message = "a message that is too long to lie in the string itself, as they are";

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

static void expect_nothing_aside(const char *what)
{
    {
        JESPAN_REGION_OF(&region_site);
    }
    expect(what, figure("spans.stats.regions_set_aside") == 0);
}

static void scribble()
{
    JESPAN_REGION_OF(&region_site);
    for (int i = 0; i < 200; i++)
        std::memset(std::malloc(1 + i * 7), '?', 1 + i * 7);
}

struct big_error : std::runtime_error {
    big_error() : std::runtime_error(message) { std::memset(bytes, 'b', sizeof bytes); }
    char bytes[6000];
};

template <typename Error> static void throw_in(const jespan_site &site, const Error &error)
{
    JESPAN_REGION_OF(&site);
    for (int i = 0; i < 1000; i++)
        std::memset(std::malloc(500), 'x', 500);
    throw Error(error);
}

template <typename Error> static void is_caught(const jespan_site &site, const Error &error)
{
    try {
        throw_in(site, error);
    } catch (const std::runtime_error &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect_nothing_aside("caught");
}

// With what it holds from the outer region too.
struct with_text {
    std::string text;
};

static void throw_through_two()
{
    JESPAN_REGION_OF(&other_site);
    std::string text = message;
    {
        JESPAN_REGION_OF(&region_site);
        std::malloc(100);
        throw with_text{std::move(text)};
    }
}

static void leaves_two()
{
    try {
        throw_through_two();
    } catch (const with_text &caught) {
        scribble();
        expect("text", caught.text == message);
        expect("two", figure("spans.stats.regions_set_aside") == 2);
    }
    expect_nothing_aside("two");
}

static void is_thrown_again()
{
    try {
        JESPAN_REGION_OF(&region_site);
        try {
            throw_in(other_site, std::runtime_error(message));
        } catch (...) {
            std::malloc(10);
            throw;
        }
    } catch (const std::runtime_error &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect_nothing_aside("thrown again");
}

static void is_kept()
{
    std::exception_ptr kept;
    try {
        throw_in(region_site, std::runtime_error(message));
    } catch (...) {
        kept = std::current_exception();
    }
    scribble();
    expect("kept", figure("spans.stats.regions_set_aside") == 1);
    std::thread([moved = std::move(kept)]() mutable {
        try {
            std::rethrow_exception(std::move(moved));
        } catch (const std::runtime_error &caught) {
            expect("what", std::string(caught.what()) == message);
        }
    }).join();
    expect_nothing_aside("kept");
}

// Regions that open and close while an exception is on its way end as ever.
struct cleans_up {
    ~cleans_up()
    {
        for (int i = 0; i < 100; i++) {
            JESPAN_REGION_OF(&other_site);
            std::malloc(100);
        }
    }
};

static void others_end_meanwhile()
{
    std::uint64_t aside = 0;
    try {
        cleans_up at_end;
        JESPAN_REGION_OF(&region_site);
        throw std::runtime_error(message);
    } catch (const std::exception &) {
        aside = figure("spans.stats.regions_set_aside");
    }
    expect("one is aside", aside == 1);
    expect_nothing_aside("meanwhile");
}

static void stays_inside()
{
    std::uint64_t before = figure("spans.stats.regions_survivors");
    {
        JESPAN_REGION_OF(&region_site);
        try {
            throw std::runtime_error(message);
        } catch (const std::exception &) {
        }
    }
    expect("no survivors", figure("spans.stats.regions_survivors") == before);
    expect_nothing_aside("inside");
}

static void class_leaves()
{
    try {
        jespan::region region{refusing_site};
        jespan_enter(region.span());
        struct guard {
            jespan_span_t *span;
            ~guard() { jespan_exit(span); }
        } at_end{region.span()};
        throw std::runtime_error(message);
    } catch (const std::exception &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect_nothing_aside("class");
}

// One that the program exits and closes itself, whatever its flags are: nothing is refused, nothing freed.
static void handle_leaves(const jespan_site &site)
{
    int error = -1;
    try {
        struct guard {
            jespan_span_t *span;
            int &error;
            ~guard()
            {
                jespan_exit(span);
                error = jespan_close(span);
            }
        } at_end{jespan_open(&site, JESPAN_CURRENT, nullptr, 0), error};
        jespan_enter(at_end.span);
        throw std::runtime_error(message);
    } catch (const std::exception &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect("closed", error == 0);
    expect_nothing_aside("handle");
}

// The handler ends the region and throws the exception again.
static void handler_ends_it(const jespan_site &site)
{
    try {
        jespan_span_t *span = jespan_open(&site, JESPAN_CURRENT, nullptr, 0);
        jespan_enter(span);
        try {
            throw std::runtime_error(message);
        } catch (const std::exception &) {
            expect("exited", jespan_exit(span) == 0);
            expect("closed", jespan_close(span) == 0);
            scribble();
            throw;
        }
    } catch (const std::exception &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect_nothing_aside("handler");
}

// Only jespan_close() learns of an exception that was made inside and is thrown outside.
static void made_inside_thrown_outside()
{
    try {
        struct guard {
            jespan_span_t *span;
            ~guard() { expect("closed", jespan_close(span) == 0); }
        } at_end{jespan_open(&region_site, JESPAN_CURRENT, nullptr, 0)};
        jespan_enter(at_end.span);
        std::exception_ptr made = std::make_exception_ptr(std::runtime_error(message));
        jespan_exit(at_end.span);
        std::rethrow_exception(std::move(made));
    } catch (const std::exception &caught) {
        scribble();
        expect("what", std::string(caught.what()) == message);
    }
    expect_nothing_aside("made inside");
}

// An exception that is handled later has the address of one that was handled while the region was opened. The region stays
// for the exception between them, which was thrown in an inner region and has the outer one's memory.
struct small_error {
    char bytes[40];
};
struct with_shared_text {
    std::shared_ptr<std::string> text;
};

static void throw_of_two()
{
    JESPAN_REGION_OF(&region_site);
    auto text = std::make_shared<std::string>(message);
    JESPAN_REGION_OF(&other_site);
    throw with_shared_text{std::move(text)};
}

static bool scribble_while_handled_at(const void *address, int tries)
{
    try {
        throw small_error{};
    } catch (const small_error &caught) {
        if (&caught != address)
            return tries && scribble_while_handled_at(address, tries - 1);
        scribble();
        scribble();
        return true;
    }
}

static void address_is_used_again()
{
    const void *address = nullptr;
    try {
        try {
            throw small_error{};
        } catch (const small_error &caught) {
            address = &caught;
            throw_of_two();
        }
    } catch (const with_shared_text &caught) {
        void *others[64]; // their frees push the free of the first exception out of the thread's buffer
        for (void *&p : others)
            p = std::malloc(20);
        for (void *p : others)
            std::free(p);
        expect("at the same address", scribble_while_handled_at(address, 500));
        expect("shared text", *caught.text == message);
    }
    expect_nothing_aside("the same address");
}

// A thread that opens no region after its exceptions notices that they are over when it ends.
static void thread_notices_as_it_ends()
{
    std::thread([] {
        try {
            throw_through_two();
        } catch (const with_text &caught) {
            expect("text", caught.text == message);
        }
        expect("two", figure("spans.stats.regions_set_aside") == 2);
    }).join();
    expect_nothing_aside("a thread's end");
}

// A destructor cannot refuse: the arena comes back when the survivor is gone.
static void class_does_not_refuse()
{
    void *kept[100];
    for (auto &p : kept) {
        jespan::region region{refusing_site};
        p = region.allocate(100);
        jespan_credit(p, JESPAN_BASE);
        std::memset(p, 1, 100);
        std::free(p);
    }
    {
        jespan::region region{refusing_site};
        kept[0] = region.allocate(100);
        jespan_credit(kept[0], JESPAN_BASE);
    }
    std::memset(kept[0], 1, 100);
    expect("set aside", figure("spans.stats.regions_set_aside") == 1);
    std::free(kept[0]);
    expect_nothing_aside("refusing");
    expect("no arena is lost", figure("spans.arenas.count") <= 6);
}

int main()
{
    for (int round = 0; round < 20; round++) {
        is_caught(region_site, std::runtime_error(message));
        is_caught(releasing_site, std::runtime_error(message));
        is_caught(region_site, big_error());
        leaves_two();
        is_thrown_again();
        is_kept();
        others_end_meanwhile();
        stays_inside();
        class_leaves();
        handle_leaves(region_site);
        handle_leaves(releasing_site);
        handle_leaves(refusing_site);
        handler_ends_it(region_site);
        handler_ends_it(releasing_site);
        handler_ends_it(refusing_site);
        made_inside_thrown_outside();
        address_is_used_again();
        thread_notices_as_it_ends();
        class_does_not_refuse();
    }
    return failures != 0;
}
