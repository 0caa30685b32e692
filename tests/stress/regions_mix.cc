// SPDX-License-Identifier: BSD-2-Clause
// Regions, arenas and their spans in a random mix, against a model: every object says what is in it, whoever finds it; what a thread
// made in its regions is counted to the object; when all is over, nothing is left, and jemalloc's own count agrees.
//
// REGIONS_MIX_SECONDS: for each case (1). REGIONS_MIX_SEED: another mix.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.hpp>

extern "C" {
#include "../support/many_locks.h"
}
#include "../support/family.h"

namespace {

JESPAN_ARENA_SITE(request_site, "request", JESPAN_ARENA_REGION);
JESPAN_ARENA_SITE(wiped_site, "wiped", JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED);
JESPAN_ARENA_SITE(refusing_site, "refusing", JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE);
JESPAN_ARENA_SITE(step_site, "step", 0);
JESPAN_ARENA_SITE(cache_site, "cache", JESPAN_ARENA);
const jespan_site tenant_site = {"tenant", nullptr, nullptr, 0, {JESPAN_ARENA, 0, 0, 0, 0, "tenant"}};

constexpr int threads = 6, table_size = 64, tenants = 40;
std::atomic<void *> table[table_size];
std::atomic<bool> over;
std::atomic<int> failures;
jespan_context_t cache;
std::uint64_t first_seed;

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what);                                   \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

struct random_numbers {
    std::uint64_t state;
    std::uint64_t operator()(std::uint64_t below)
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
    }
};

// ---- Objects that say what is in them ----

struct head {
    std::uint64_t bytes, seed;
};

unsigned char at(std::uint64_t seed, std::size_t i)
{
    return static_cast<unsigned char>(seed + i * 7 + (i >> 9));
}

// All of a small one, some bytes of a big one.
std::size_t step_of(std::size_t bytes)
{
    return bytes < 600 ? 1 : bytes / 97;
}

void *fill(void *p, std::size_t bytes, std::uint64_t seed)
{
    if (!p)
        return nullptr;
    head h{bytes, seed};
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
    EXPECT(right);
    if (!right)
        std::abort();
}

std::size_t size_from(random_numbers &r)
{
    std::size_t kind = r(200);
    return sizeof(head) + 1 + (kind == 0 ? r(4 << 20) : kind < 10 ? r(60000) : kind < 60 ? r(4000) : r(300));
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
    EXPECT(p != nullptr);
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
    auto *q = static_cast<unsigned char *>(F(realloc)(p, bytes));
    EXPECT(q != nullptr);
    for (std::size_t i = sizeof h; i < kept; i += step_of(h.bytes))
        if (i + 1 != h.bytes && q[i] != at(h.seed, i))
            std::abort();
    return fill(q, bytes, r(1 << 30));
}

// What lives outside, whoever made it: any thread takes it.
void hand_out(random_numbers &r, void *p)
{
    drop(table[r(table_size)].exchange(p));
}

// ---- A thread ----

// The model's own memory must not go with a region.
template <typename T, std::size_t N> struct few {
    T items[N];
    std::size_t n = 0;
    void push_back(T item)
    {
        if (n == N)
            std::abort();
        items[n++] = item;
    }
    void pop_back() { n--; }
    T &back() { return items[n - 1]; }
    T &operator[](std::size_t i) { return items[i]; }
    std::size_t size() const { return n; }
    bool empty() const { return n == 0; }
    T *begin() { return items; }
    T *end() { return items + n; }
};

struct region {
    jespan_span_t *span;
    jespan_context_t context = 0;
    few<void *, 500> live{};
    few<void *, 500> given{}; // by inner ones, which would last as long as it

    explicit region(jespan_span_t *opened) : span{opened} {}
    region(const region &) = delete;
    region &operator=(const region &) = delete;
};

struct worker {
    random_numbers r;
    int number;
    int depth = 0;
    few<region *, 20> open{}; // innermost last
    few<jespan_span_t *, 3> elsewhere{};
    bool counts = true; // nothing of this thread's was set aside, so its contexts hold what is in its regions

    worker(random_numbers with, int n) : r{with}, number{n} {}
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;

    // The context is this thread's alone.
    jespan_span_t *open_one(const jespan_site &site)
    {
        const jespan_label label = JESPAN_LABEL_INT("thread", number);
        return jespan_open(&site, JESPAN_CURRENT, &label, 1);
    }

    const jespan_site &any_site() { return r(4) ? request_site : r(2) ? wiped_site : refusing_site; }

    void in_region(region &here)
    {
        std::uint64_t what = r(100);
        if (what < 55 || here.live.empty()) {
            here.live.push_back(make(r));
            return;
        }
        std::size_t i = r(here.live.size());
        void *p = here.live[i];
        if (what < 70) {
            drop(p);
        } else if (what < 85) {
            here.live[i] = resize(r, p);
            return;
        } else if (what < 87) {
            check(p);
            EXPECT(jespan_retag(p, r(2) ? cache : JESPAN_ROOT) == 0);
            hand_out(r, p);
            counts = false;
        } else if (what < 88 && open.size() > 1 && open[0]->given.size() < 50) {
            region &outer = *open[r(open.size() - 1)];
            EXPECT(jespan_retag(p, outer.context) == 0);
            outer.given.push_back(p);
            counts = false;
        } else {
            check(p);
            return;
        }
        here.live[i] = here.live.back();
        here.live.pop_back();
    }

    void outside()
    {
        JESPAN_FOR(r(2) ? cache : JESPAN_ROOT);
        hand_out(r, make(r));
    }

    void take_one()
    {
        void *p = table[r(table_size)].exchange(nullptr);
        if (p && r(3)) {
            p = resize(r, p);
            counts = false; // it is the thread's by the books
        }
        if (p)
            hand_out(r, p);
    }

    // An object of an outer region, in an inner one: it stays where it is.
    void resize_outer()
    {
        region &outer = *open[r(open.size())];
        if (!outer.live.empty()) {
            void *&p = outer.live[r(outer.live.size())];
            p = resize(r, p);
            counts = counts && &outer == open.back(); // it is the inner one's now, by the books
        }
    }

    // Opened outside of the innermost region, in whatever context: what is made there stays.
    void step_elsewhere()
    {
        if (elsewhere.empty() || jespan_enter(elsewhere.back()))
            return;
        void *p = make(r);
        EXPECT(jespan_exit(elsewhere.back()) == 0);
        hand_out(r, p);
    }

    void step_inside(region &here)
    {
        jespan_span_t *step = jespan_open(&step_site, JESPAN_CURRENT, nullptr, 0);
        EXPECT(step && jespan_enter(step) == 0);
        for (int i = 0; i < 5; i++)
            here.live.push_back(make(r));
        EXPECT(jespan_exit(step) == 0);
        EXPECT(jespan_close(step) == 0);
    }

    void tenant()
    {
        const jespan_label label = JESPAN_LABEL_INT("tenant", static_cast<long>(r(tenants)));
        jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &label, 1);
        EXPECT(span && jespan_enter(span) == 0);
        void *p = make(r), *q = make(r);
        drop(p);
        EXPECT(jespan_exit(span) == 0);
        EXPECT(jespan_close(span) == 0);
        hand_out(r, q);
    }

    void purge()
    {
        static const char *const names[] = {"arena.4096.purge", "arena.4096.decay", "spans.epoch", "thread.tcache.flush"};
        std::uint64_t any = 1, which = r(4);
        F(mallctl)(names[which], nullptr, nullptr, which == 2 ? &any : nullptr, which == 2 ? sizeof any : 0);
    }

    void check_count(region &here)
    {
        char name[64];
        std::uint64_t objects = 0;
        std::size_t bytes = sizeof objects;
        std::snprintf(name, sizeof name, "spans.%u.total.inuse_objects", static_cast<unsigned>(here.context));
        EXPECT(F(mallctl)(name, &objects, &bytes, nullptr, 0) == 0);
        if (objects != here.live.size()) {
            std::fprintf(stderr, "%s: %llu objects, not %zu\n", name, static_cast<unsigned long long>(objects), here.live.size());
            failures++;
        }
    }

    void work(region &here)
    {
        for (int i = 0; i < 60; i++) {
            std::uint64_t what = r(1000);
            if (what < 800)
                in_region(here);
            else if (what < 850)
                take_one();
            else if (what < 870)
                outside();
            else if (what < 900)
                resize_outer();
            else if (what < 920)
                step_elsewhere();
            else if (what < 940)
                step_inside(here);
            else if (what < 960)
                tenant();
            else if (what < 962)
                purge();
            else if (what < 966 && depth < 6)
                throws();
            else if (what < 990 && depth < 6)
                nested();
        }
        for (void *p : here.live)
            check(p);
    }

    // Whose memory goes, however it is left. The model's own memory is the root's.
    void one_region()
    {
        region here{open_one(any_site())};
        if (!here.span)
            return; // max_arenas
        EXPECT(jespan_enter(here.span) == 0);
        here.context = jespan_current();
        open.push_back(&here);
        depth++;
        struct guard {
            worker &w;
            region &here;
            ~guard()
            {
                w.depth--;
                w.open.pop_back();
                for (void *p : here.given)
                    drop(p);
                EXPECT(jespan_exit(here.span) == 0);
                if (jespan_close(here.span) == EBUSY) { // until no survivor is left, which others have
                    jespan_scope scope{};
                    scope.entered = reinterpret_cast<std::uintptr_t>(here.span);
                    jespan_region_exit(&scope);
                }
            }
        } at_end{*this, here};
        work(here);
        if (counts && open.size() == 1)
            check_count(here);
        if (r(40) == 0 && depth > 1)
            throw std::runtime_error("a text that is too long to be in the string " + std::to_string(number));
    }

    void nested()
    {
        if (open.size() > 1 && r(2)) {
            JESPAN("between");
            one_region();
        } else {
            one_region();
        }
    }

    void block()
    {
        JESPAN_REGION("block");
        void *p = make(r), *q = make(r);
        check(p);
        drop(q);
        if (r(3) == 0)
            throw std::runtime_error("a text that is too long to be in the string " + std::to_string(number));
    }

    void throws()
    {
        counts = false;
        try {
            r(2) ? one_region() : block();
        } catch (const std::runtime_error &error) {
            take_one();
            EXPECT(error.what() == "a text that is too long to be in the string " + std::to_string(number));
        }
    }

    // Two that are entered and left in any order, as coroutines on a thread do.
    void switches()
    {
        region a{open_one(request_site)}, b{open_one(request_site)};
        region *both[] = {&a, &b};
        for (int i = 0; a.span && b.span && i < 30; i++) {
            region &one = *both[r(2)];
            EXPECT(jespan_enter(one.span) == 0);
            one.live.push_back(make(r));
            check(one.live[r(one.live.size())]);
            if (r(2)) {
                region &other = *both[r(2)];
                EXPECT(jespan_enter(other.span) == 0);
                EXPECT(jespan_exit(one.span) == 0);
                other.live.push_back(make(r));
                EXPECT(jespan_exit(other.span) == 0);
            } else {
                EXPECT(jespan_exit(one.span) == 0);
            }
        }
        for (region *one : both) {
            for (void *p : one->live)
                check(p);
            if (one->span)
                EXPECT(jespan_close(one->span) == 0);
        }
    }

    void round()
    {
        try {
            std::uint64_t what = r(20);
            if (what == 0)
                switches();
            else if (what == 1)
                tenant();
            else if (what == 2)
                block();
            else
                one_region();
        } catch (const std::exception &) {
            counts = false;
        }
        while (elsewhere.size() < 3)
            elsewhere.push_back(jespan_open(&step_site, JESPAN_ROOT, nullptr, 0));
    }

    ~worker()
    {
        for (jespan_span_t *span : elsewhere)
            jespan_close(span);
    }
};

void *run(void *number)
{
    int n = static_cast<int>(reinterpret_cast<std::uintptr_t>(number));
    worker w{{first_seed + static_cast<std::uint64_t>(n) * 77 + 1}, n};
    while (!over)
        w.round();
    return nullptr;
}

// Ends inside of a region.
void *run_shortly(void *number)
{
    auto n = reinterpret_cast<std::uintptr_t>(number);
    random_numbers r{first_seed + n};
    JESPAN_REGION("short");
    for (int i = 0; i < 20; i++)
        make(r);
    if (r(2))
        pthread_exit(nullptr);
    return nullptr;
}

void fork_one(std::uint64_t n)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        over = true;
        worker w{{first_seed + n}, 1000};
        w.counts = false;
        for (int i = 0; i < 20; i++)
            w.round();
        _exit(failures != 0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
}

std::uint64_t figure(const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    EXPECT(F(mallctl)(name, &value, &bytes, nullptr, 0) == 0);
    return value;
}

void expect_empty()
{
    for (auto &p : table)
        drop(p.exchange(nullptr));
    jespan_close(jespan_open(&request_site, JESPAN_ROOT, nullptr, 0));
    EXPECT(figure("spans.stats.regions_set_aside") == 0);
    for (std::uint64_t i = 1; i <= figure("spans.arenas.count"); i++) {
        char name[64];
        std::snprintf(name, sizeof name, "spans.arenas.%u.inuse_objects", static_cast<unsigned>(i));
        if (figure(name) != 0) {
            std::fprintf(stderr, "%s: %llu\n", name, static_cast<unsigned long long>(figure(name)));
            failures++;
        }
    }
}

std::uint64_t environment(const char *name, std::uint64_t otherwise)
{
    const char *text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

int mix()
{
    pthread_t thread[threads], one;
    double end = now() + static_cast<double>(environment("REGIONS_MIX_SECONDS", 1));
    first_seed = environment("REGIONS_MIX_SEED", 1);
    jespan_span_t *span = jespan_open(&cache_site, JESPAN_ROOT, nullptr, 0);
    EXPECT(jespan_enter(span) == 0);
    cache = jespan_current();
    EXPECT(jespan_exit(span) == 0);
    for (std::uintptr_t i = 0; i < threads; i++)
        EXPECT(pthread_create(&thread[i], nullptr, run, reinterpret_cast<void *>(i)) == 0);
    for (std::uint64_t i = 0; now() < end || i < 3; i++) {
        EXPECT(pthread_create(&one, nullptr, run_shortly, reinterpret_cast<void *>(i)) == 0);
        EXPECT(pthread_join(one, nullptr) == 0);
        fork_one(i);
    }
    over = true;
    for (auto &t : thread)
        EXPECT(pthread_join(t, nullptr) == 0);
    expect_empty();
    return failures != 0;
}

// Each in a process of its own.
const struct {
    const char *name, *malloc_conf, *jespan_conf;
} cases[] = {
    {"plain", "narenas:2", "max_arenas:64"},
    {"decay 0", "narenas:2,dirty_decay_ms:0,muzzy_decay_ms:0", "max_arenas:40"},
    {"background threads, decay 10", "narenas:2,background_thread:true,dirty_decay_ms:10,muzzy_decay_ms:10", "max_arenas:20"},
    {"few arenas, addresses go", "narenas:1,retain:false,dirty_decay_ms:0", "max_arenas:5"},
    {"ages", "narenas:2", "max_arenas:30,age_period_s:1"},
};

int run_case(std::size_t i)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("MALLOC_CONF", cases[i].malloc_conf, 1);
        setenv("JESPAN_CONF", cases[i].jespan_conf, 1);
        execl("/proc/self/exe", "case", cases[i].name, static_cast<char *>(nullptr));
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (status)
        std::fprintf(stderr, "%s: status %d\n", cases[i].name, status);
    return status != 0;
}

} // namespace

int main(int argc, char **)
{
    int failed = 0;
    if (argc > 1)
        return mix();
    for (std::size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        failed += run_case(i);
    return failed != 0;
}
