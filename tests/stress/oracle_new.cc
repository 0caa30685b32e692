// SPDX-License-Identifier: BSD-2-Clause
// The oracle for C++: every form of new and delete, containers, threads and exceptions, against an independent count.
//
// ORACLE_OPS: operations over all threads (1,000,000).
#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <jespan/jespan.h>

#include "../support/ctl.h"

// clang has the sized forms only with -fsized-deallocation.
#ifdef __cpp_sized_deallocation
#define SIZED(p, size) (p), (size)
#else
#define SIZED(p, size) (p)
#endif

namespace {

constexpr int thread_count = 8;
constexpr std::size_t slot_count = 512;

// The figures of one context that this test keeps. Any thread may free its objects, so the figures are atomic.
struct Figures {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes;

    void allocated(std::size_t usable)
    {
        __atomic_fetch_add(&alloc_objects, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&alloc_bytes, usable, __ATOMIC_RELAXED);
    }
    void freed(std::size_t usable)
    {
        __atomic_fetch_add(&free_objects, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&free_bytes, usable, __ATOMIC_RELAXED);
    }
};

enum class Form { plain, array, aligned, aligned_array, forms };

struct Object {
    void *p = nullptr;
    std::size_t size = 0, usable = 0;
    std::align_val_t align{};
    Form form = Form::plain;
    Figures *owner = nullptr;
};

struct Random {
    uint64_t state;
    uint64_t operator()(uint64_t n)
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state * 0x2545f4914f6cdd1dull >> 20) % n;
    }
};

void *get(Object &o, bool nothrow)
{
    switch (o.form) {
    case Form::plain: return nothrow ? ::operator new(o.size, std::nothrow) : ::operator new(o.size);
    case Form::array: return nothrow ? ::operator new[](o.size, std::nothrow) : ::operator new[](o.size);
    case Form::aligned: return nothrow ? ::operator new(o.size, o.align, std::nothrow) : ::operator new(o.size, o.align);
    default: return nothrow ? ::operator new[](o.size, o.align, std::nothrow) : ::operator new[](o.size, o.align);
    }
}

// Each form of new has a plain, a sized and a nothrow delete.
enum class Way { plain, sized, nothrow, ways };

void give_single(const Object &o, Way way)
{
    switch (way) {
    case Way::plain: return ::operator delete(o.p);
    case Way::sized: return ::operator delete(SIZED(o.p, o.size));
    default: return ::operator delete(o.p, std::nothrow);
    }
}

void give_array(const Object &o, Way way)
{
    switch (way) {
    case Way::plain: return ::operator delete[](o.p);
    case Way::sized: return ::operator delete[](SIZED(o.p, o.size));
    default: return ::operator delete[](o.p, std::nothrow);
    }
}

void give_aligned(const Object &o, Way way)
{
    switch (way) {
    case Way::plain: return ::operator delete(o.p, o.align);
    case Way::sized: return ::operator delete(SIZED(o.p, o.size), o.align);
    default: return ::operator delete(o.p, o.align, std::nothrow);
    }
}

void give_aligned_array(const Object &o, Way way)
{
    switch (way) {
    case Way::plain: return ::operator delete[](o.p, o.align);
    case Way::sized: return ::operator delete[](SIZED(o.p, o.size), o.align);
    default: return ::operator delete[](o.p, o.align, std::nothrow);
    }
}

void give(const Object &o, Way way)
{
    switch (o.form) {
    case Form::plain: return give_single(o, way);
    case Form::array: return give_array(o, way);
    case Form::aligned: return give_aligned(o, way);
    default: return give_aligned_array(o, way);
    }
}

void make(Object &o, Random &random, Figures *owner)
{
    o.form = static_cast<Form>(random(static_cast<uint64_t>(Form::forms)));
    o.align = static_cast<std::align_val_t>(std::size_t{16} << random(9));
    o.size = random(16) ? random(600) : random(100000);
    o.p = get(o, random(2));
    o.owner = owner;
    o.usable = malloc_usable_size(o.p);
    owner->allocated(o.usable);
    bool aligned = o.form == Form::aligned || o.form == Form::aligned_array;
    if (aligned && reinterpret_cast<uintptr_t>(o.p) % static_cast<std::size_t>(o.align))
        check_fail("%p is not aligned to %zu", o.p, static_cast<std::size_t>(o.align));
    std::fill_n(static_cast<char *>(o.p), o.size, 'x');
}

void drop(Object &o, Random &random)
{
    o.owner->freed(o.usable);
    give(o, static_cast<Way>(random(static_cast<uint64_t>(Way::ways))));
    o.p = nullptr;
}

// Containers through an allocator that tells the count what it asks operator new for.
Figures container_figures;

template <class T> struct Counting {
    using value_type = T;
    Counting() = default;
    template <class U> Counting(const Counting<U> &) {}
    T *allocate(std::size_t n)
    {
        T *p = static_cast<T *>(::operator new(n * sizeof(T)));
        container_figures.allocated(malloc_usable_size(p));
        return p;
    }
    void deallocate(T *p, std::size_t n)
    {
        container_figures.freed(malloc_usable_size(p));
        (void)n;
        ::operator delete(SIZED(p, n * sizeof(T)));
    }
    template <class U> bool operator==(const Counting<U> &) const { return true; }
    template <class U> bool operator!=(const Counting<U> &) const { return false; }
};

using String = std::basic_string<char, std::char_traits<char>, Counting<char>>;
using Map = std::map<int, String, std::less<int>, Counting<std::pair<const int, String>>>;
using Hash = std::unordered_map<int, String, std::hash<int>, std::equal_to<int>, Counting<std::pair<const int, String>>>;
using Vector = std::vector<String, Counting<String>>;
using List = std::list<String, Counting<String>>;

struct Slots {
    std::mutex lock;
    std::array<Object, slot_count> objects;
};

// Memory of the model itself, made before anything is counted.
Slots slots[thread_count];
Figures figures[thread_count];
jespan_context_t contexts[thread_count];

void fill_containers(Random &random, int n)
{
    JESPAN("containers");
    Map map;
    Hash hash;
    Vector vector;
    List list;
    for (int i = 0; i < n; i++) {
        String text(random(200), 'y');
        map[static_cast<int>(random(100))] = text;
        hash[static_cast<int>(random(100))] = text;
        vector.push_back(text);
        list.push_front(std::move(text));
    }
    vector.shrink_to_fit();
    list.sort();
}

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] void throw_from(int depth)
{
    JESPAN("throws");
    auto held = std::make_unique<std::string>(1000, 'z');
    if (depth == 0)
        throw Failure("from the bottom, with a text too long for the string's own buffer");
    throw_from(depth - 1);
}

// The spans that an exception leaves end with their blocks.
void throw_through_spans()
{
    jespan_context_t before = jespan_current();
    try {
        throw_from(20);
    } catch (const Failure &) {
        CHECK_EQ(jespan_current(), before);
    }
}

// Exchanges an object with a slot of any thread, so objects are handed over both ways.
void step(int self, Random &random)
{
    Slots &target = slots[random(thread_count)];
    Object &o = target.objects[random(slot_count)];
    std::lock_guard<std::mutex> guard(target.lock);
    if (o.p)
        drop(o, random);
    else
        make(o, random, &figures[self]);
}

void work(int self, uint64_t ops)
{
    Random random{0x9e3779b97f4a7c15ull * static_cast<uint64_t>(self + 1)};
    const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    JESPAN("worker", "name", names[self]);
    contexts[self] = jespan_current();
    for (uint64_t i = 0; i < ops; i++) {
        step(self, random);
        if (i % 5000 == 0)
            fill_containers(random, 50);
        if (i % 1000 == 0)
            throw_through_spans();
    }
}

void check_context(jespan_context_t id, const Figures &expected, const char *name)
{
    const struct {
        const char *leaf;
        uint64_t expected;
    } all[] = {{"alloc_objects", expected.alloc_objects}, {"alloc_bytes", expected.alloc_bytes},
               {"free_objects", expected.free_objects}, {"free_bytes", expected.free_bytes}};
    for (const auto &one : all)
        if (ctl_span(id, one.leaf) != one.expected)
            check_fail("%s: %s is %llu, the count says %llu", name, one.leaf,
                       static_cast<unsigned long long>(ctl_span(id, one.leaf)), static_cast<unsigned long long>(one.expected));
}

jespan_span_t *holds[thread_count];

// Keeps a worker's context from being recycled, so that its figures stay.
void hold_contexts()
{
    JESPAN_SITE(hold, "hold");
    for (int i = 0; i < thread_count; i++)
        holds[i] = jespan_open(&hold, contexts[i], nullptr, 0);
}

void check_failures_of_new()
{
    std::size_t huge = opaque(SIZE_MAX / 2 + 10);
    bool thrown = false;
    try {
        give(Object{::operator new(huge), huge}, Way::plain);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    CHECK(::operator new[](huge, std::align_val_t{64}, std::nothrow) == nullptr);
    static int handled;
    std::set_new_handler([] {
        handled++;
        std::set_new_handler(nullptr);
    });
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    CHECK_EQ(handled, 1);
    ::operator delete(nullptr);
    ::operator delete[](nullptr, std::align_val_t{64});
    void *zero = ::operator new(0);
    CHECK(zero != nullptr);
    ::operator delete(zero);
}

void check_all()
{
    static const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    Figures sum{};
    ctl_check_identity("all threads ended");
    for (int i = 0; i < thread_count; i++) {
        check_context(contexts[i], figures[i], names[i]);
        sum.alloc_objects += figures[i].alloc_objects;
    }
    CHECK_EQ(container_figures.alloc_objects, container_figures.free_objects);
    CHECK_EQ(container_figures.alloc_bytes, container_figures.free_bytes);
    check_note("oracle_new: %llu objects, %llu in containers, no error unless said",
               static_cast<unsigned long long>(sum.alloc_objects),
               static_cast<unsigned long long>(container_figures.alloc_objects));
}

} // namespace

int main()
{
    uint64_t ops = check_rounds("ORACLE_OPS", 1000000) / thread_count;
    check_failures_of_new();
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < thread_count; i++)
            threads.emplace_back(work, i, ops);
        for (auto &thread : threads)
            thread.join();
    }
    hold_contexts();
    check_all();
    Random random{1};
    for (auto &of_thread : slots)
        for (auto &o : of_thread.objects)
            if (o.p)
                drop(o, random);
    check_all();
    for (int i = 0; i < thread_count; i++)
        CHECK_EQ(ctl_span(contexts[i], "inuse_objects"), 0);
    return check_result();
}
