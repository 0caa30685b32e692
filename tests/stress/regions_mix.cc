// SPDX-License-Identifier: BSD-2-Clause
// A random mix of regions, arenas, limits and their spans, compared with a model. Every object names its own contents and its owner, so
// any thread can check it. The model counts the objects of each region. Limits are set, changed and removed meanwhile. A refused request
// changes nothing, and nothing is refused where no limit is. Now and then all threads rest. Then each context has what the model says. The
// contexts' sum, the live bytes and jemalloc's own count are the same. Each limit's figure is what is in use below it.
//
// REGIONS_MIX_SECONDS is the duration of each case (1). REGIONS_MIX_SEED selects another mix.
#include <atomic>
#include <cerrno>
#include <cstddef>
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
#include <jespan/limit.h>
#include <jespan/snapshot.h>

extern "C" {
#include "../support/many_locks.h"
}
#include "../support/family.h"

namespace {

JESPAN_SITE_ARENA(request_site, "request", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(wiped_site, "wiped", JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED);
JESPAN_SITE_ARENA(refusing_site, "refusing", JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE);
JESPAN_SITE_ARENA(step_site, "step", 0);
JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(server_site, "server", 0);
const jespan_site tenant_site = {"tenant", nullptr, nullptr, 0, {JESPAN_ARENA, 0, 0, 0, 0, "tenant"}};

constexpr int threads = 6, table_size = 64, tenants = 40, coroutines = 4, recent_contexts = 64;
constexpr std::uint64_t cache_bytes = 8 << 20; // the limit of the cache, which it has from the start
std::atomic<void *> table[table_size];
std::atomic<bool> over, rest, limits_change{true};
std::atomic<int> failures, resting, refusals, told;
std::atomic<jespan_context_t> recent[recent_contexts]; // contexts that may get a limit
jespan_span_t *cache_span, *server;
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

// ---- Objects that name their contents ----

struct head {
    std::uint64_t bytes, seed;
    jespan_context_t owner; // if the object is in the table
};

unsigned char at(std::uint64_t seed, std::size_t i)
{
    return static_cast<unsigned char>(seed + i * 7 + (i >> 9));
}

// Fills all bytes of a small object and some bytes of a large one.
std::size_t step_of(std::size_t bytes)
{
    return bytes < 600 ? 1 : bytes / 97;
}

void *fill(void *p, std::size_t bytes, std::uint64_t seed)
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

std::size_t size_from(random_numbers &r)
{
    std::size_t kind = r(200);
    return sizeof(head) + 1 + (kind == 0 ? r(4 << 20) : kind < 10 ? r(60000) : kind < 60 ? r(4000) : r(300));
}

std::uint64_t figure(const char *name);

// Whether contexts have run out. Then a span may get the context of another span, which holds objects that the model does not know.
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

// Counts a refusal. Returns whether a limit may have refused.
bool may_refuse()
{
    refusals++;
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
void hand_out(random_numbers &r, void *p, jespan_context_t owner = JESPAN_INVALID)
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

// ---- A thread ----

// The model's own memory must not be freed with a region.
template <typename T, std::size_t N> struct few {
    T items[N];
    std::size_t n = 0;
    void push_back(T item)
    {
        if (!item)
            return; // the request was refused
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
    bool counts = false; // its context and those below have the objects in `live`, and nothing else
    few<void *, 500> live{};
    few<void *, 500> given{}; // objects that inner regions gave; they would last as long as this region

    explicit region(jespan_span_t *opened, bool is_alone = false) : span{opened}, counts{is_alone} {}
    region(const region &) = delete;
    region &operator=(const region &) = delete;
};

// No static objects in functions: a child that is forked while another thread makes one would wait for that thread.
region coroutine_regions[coroutines] = {region{nullptr}, region{nullptr}, region{nullptr}, region{nullptr}};

struct worker {
    random_numbers r;
    int number;
    int depth = 0;
    few<region *, 20> open{}; // the innermost is the last
    few<jespan_span_t *, 3> elsewhere{};

    worker(random_numbers with, int n) : r{with}, number{n} {}
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;

    // Only this thread has the context, and mostly only that span.
    jespan_span_t *open_one(const jespan_site &site, bool is_alone)
    {
        static std::atomic<long> number_of_span{1000};
        const jespan_label label = JESPAN_LABEL_INT("n", is_alone ? number_of_span++ : number);
        return jespan_open(&site, JESPAN_CURRENT, &label, 1);
    }

    void publish(jespan_context_t context) { recent[r(recent_contexts)] = context; }

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
            hand_out(r, p);
            here.counts = false;
        } else if (what < 88 && open.size() > 1 && open[0]->given.size() < 50) {
            region &outer = *open[r(open.size() - 1)];
            if (jespan_credit(p, outer.context)) {
                EXPECT(limits_change);
                return;
            }
            outer.given.push_back(p);
            here.counts = outer.counts = false;
        } else {
            check(p);
            return;
        }
        here.live[i] = here.live.back();
        here.live.pop_back();
    }

    void outside()
    {
        jespan_context_t owner = r(2) ? cache : JESPAN_ROOT;
        JESPAN_CREDIT(owner);
        hand_out(r, make(r), owner);
    }

    void take_one()
    {
        void *p = table[r(table_size)].exchange(nullptr);
        if (p && r(3))
            p = resize(r, p);
        if (p)
            hand_out(r, p);
    }

    // Resizes an object of an outer region in an inner region. It stays where it is.
    void resize_outer()
    {
        region &outer = *open[r(open.size())];
        if (!outer.live.empty()) {
            void *&p = outer.live[r(outer.live.size())];
            p = resize(r, p);
            outer.counts = open.back()->counts = open.back()->counts && &outer == open.back(); // the limits decide who owns it
        }
    }

    // A span that was opened outside of the innermost region, in any context. Objects that are made there stay.
    void step_elsewhere()
    {
        if (elsewhere.empty() || jespan_enter(elsewhere.back()))
            return;
        void *p = make(r);
        jespan_context_t owner = jespan_current();
        hand_out(r, p, owner);
        EXPECT(jespan_exit(elsewhere.back()) == 0);
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
        hand_out(r, q, jespan_current());
        publish(jespan_current());
        EXPECT(jespan_exit(span) == 0);
        EXPECT(jespan_close(span) == 0);
    }

    // A region that threads hand over. The thread that has it enters it.
    void coroutine()
    {
        static std::atomic<region *> waiting[coroutines];
        static std::atomic<bool> begun[coroutines];
        std::uint64_t i = r(coroutines);
        region *one = begun[i].exchange(true) ? waiting[i].exchange(nullptr) : &coroutine_regions[i];
        if (!one)
            return; // another thread has the region
        if (!one->span) {
            JESPAN_CREDIT(JESPAN_BASE);
            const jespan_label label = JESPAN_LABEL_INT("coroutine", static_cast<long>(i));
            one->span = jespan_open(&request_site, JESPAN_ROOT, &label, 1);
        }
        if (one->span) {
            EXPECT(jespan_enter(one->span) == 0);
            for (int n = 0; n < 20 && one->live.size() < 400; n++)
                one->live.push_back(make(r));
            for (std::uint64_t n = r(20); n-- && !one->live.empty(); one->live.pop_back())
                drop(one->live.back());
            if (!one->live.empty())
                one->live.back() = resize(r, one->live.back());
            for (void *p : one->live)
                check(p);
            EXPECT(jespan_exit(one->span) == 0);
            if (rest || over || r(8) == 0) {
                EXPECT(jespan_close(one->span) == 0);
                one->span = nullptr;
                one->live.n = 0;
            }
        }
        waiting[i] = one;
    }

    void purge()
    {
        static const char *const names[] = {"arena.4096.purge", "arena.4096.decay", "spans.epoch", "thread.tcache.flush"};
        std::uint64_t any = 1, which = r(4);
        F(mallctl)(names[which], nullptr, nullptr, which == 2 ? &any : nullptr, which == 2 ? sizeof any : 0);
    }

    void check_count(region &here)
    {
        here.counts = false;
        if (contexts_are_shared())
            return;
        char name[64];
        std::uint64_t objects = here.live.size() + 1;
        std::size_t bytes = sizeof objects;
        std::snprintf(name, sizeof name, "spans.%u.total.inuse_objects", static_cast<unsigned>(here.context));
        // A snapshot may lack a free that another thread was counting just then, of the context that had the number before.
        for (int i = 0; i < 1000 && objects != here.live.size(); i++) {
            if (i)
                usleep(1000);
            EXPECT(F(mallctl)(name, &objects, &bytes, nullptr, 0) == 0);
        }
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
            else if (what < 970)
                coroutine();
            else if (what < 990 && depth < 6)
                nested();
        }
        for (void *p : here.live)
            check(p);
    }

    // A region whose memory is freed, however the block is left. The model's own memory belongs to the root.
    void one_region()
    {
        bool is_alone = r(4) != 0;
        std::uint64_t shared = figure("spans.stats.regions_shared");
        region here{open_one(any_site(), is_alone), is_alone};
        if (!here.span)
            return; // max_arenas
        EXPECT(jespan_enter(here.span) == 0);
        here.context = jespan_current();
        if (r(4) == 0)
            publish(here.context);
        open.push_back(&here);
        depth++;
        struct guard {
            worker &w;
            region &here;
            bool is_clean; // no object of it is left
            ~guard()
            {
                w.depth--;
                w.open.pop_back();
                if (!w.open.empty() && !is_clean)
                    w.open.back()->counts = false;
                for (void *p : here.given)
                    drop(p);
                EXPECT(jespan_exit(here.span) == 0);
                if (jespan_close(here.span) == EBUSY) { // other threads have survivors; closed again until none is left
                    jespan_block scope{};
                    scope.entered = reinterpret_cast<std::uintptr_t>(here.span);
                    jespan_exit_region(&scope);
                }
            }
        } at_end{*this, here, false};
        work(here);
        // A shared region keeps its objects until all threads have left it.
        here.counts = here.counts && figure("spans.stats.regions_shared") == shared;
        at_end.is_clean = here.counts;
        if (here.counts)
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
        std::uint64_t lost = figure("spans.stats.regions_lost");
        JESPAN_REGION("block");
        void *p = make(r), *q = make(r);
        if (p)
            check(p);
        drop(q);
        if (figure("spans.stats.regions_lost") != lost)
            drop(p); // the span may be no region
        if (r(3) == 0)
            throw std::runtime_error("a text that is too long to be in the string " + std::to_string(number));
    }

    void throws()
    {
        open.back()->counts = false;
        try {
            r(2) ? one_region() : block();
        } catch (const std::runtime_error &error) {
            take_one();
            char text[96];
            std::snprintf(text, sizeof text, "a text that is too long to be in the string %d", number);
            EXPECT(!std::strcmp(error.what(), text));
        } catch (const std::bad_alloc &) {
            EXPECT(limits_change);
        }
    }

    // Two regions that are entered and left in any order, as coroutines on one thread do it.
    void switches()
    {
        region a{open_one(request_site, r(2))}, b{open_one(request_site, r(2))};
        region *both[] = {&a, &b};
        for (int i = 0; a.span && b.span && i < 30; i++) {
            region &one = *both[r(2)];
            EXPECT(jespan_enter(one.span) == 0);
            one.live.push_back(make(r));
            if (!one.live.empty())
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
            else if (what == 3)
                coroutine();
            else
                one_region();
        } catch (const std::exception &) {
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

// A thread reports by itself that its exceptions are over.
std::atomic<unsigned> tidy_round;
std::atomic<int> tidied;

void tidy()
{
    jespan_close(jespan_open(&request_site, JESPAN_ROOT, nullptr, 0));
}

// Waits until the others go on. Coroutines have ended by then.
void pause(worker &w)
{
    for (int i = 0; i < 20 * coroutines; i++)
        w.coroutine();
    EXPECT(jespan_exit(server) == 0);
    unsigned seen = tidy_round;
    resting++;
    while (rest) {
        if (seen != tidy_round) {
            seen = tidy_round;
            tidy();
            tidied++;
        }
        usleep(200);
    }
    resting--;
    EXPECT(jespan_enter(server) == 0);
}

void *run(void *number)
{
    int n = static_cast<int>(reinterpret_cast<std::uintptr_t>(number));
    worker w{{first_seed + static_cast<std::uint64_t>(n) * 77 + 1}, n};
    EXPECT(jespan_enter(server) == 0);
    while (!over) {
        w.round();
        if (rest)
            pause(w);
    }
    EXPECT(jespan_exit(server) == 0);
    return nullptr;
}

// The thread ends inside a region.
void *run_shortly(void *number)
{
    auto n = reinterpret_cast<std::uintptr_t>(number);
    random_numbers r{first_seed + n};
    few<void *, 20> live{};
    std::uint64_t lost = figure("spans.stats.regions_lost");
    JESPAN_REGION("short");
    for (int i = 0; i < 20; i++)
        live.push_back(make(r));
    if (figure("spans.stats.regions_lost") != lost)
        for (void *p : live)
            drop(p); // the span may be no region
    if (r(2))
        pthread_exit(nullptr);
    return nullptr;
}

// At its first call, pthread_exit() loads a library in the context of its caller.
void *only_exit(void *)
{
    pthread_exit(nullptr);
}

void fork_one(std::uint64_t n)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        over = true;
        failures = 0;
        worker w{{first_seed + n}, 1000};
        for (int i = 0; i < 20; i++)
            w.round();
        _exit(failures != 0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
}

// ---- Limits ----

// `otherwise` is the value if the context may be gone.
std::uint64_t figure_of(jespan_context_t context, const char *leaf, std::uint64_t otherwise = 0)
{
    char name[96];
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    std::snprintf(name, sizeof name, "spans.%u.%s", static_cast<unsigned>(context), leaf);
    return F(mallctl)(name, &value, &bytes, nullptr, 0) ? otherwise : value;
}

few<jespan_context_t, 200> limited; // for the thread that sets limits; while all rest, for the main thread

void count_event(const jespan_limit_event *event, void *)
{
    EXPECT(event->path && event->limit_bytes);
    told++;
}

bool was_limited(jespan_context_t context)
{
    for (jespan_context_t one : limited)
        if (one == context)
            return true;
    return false;
}

void set_limit(random_numbers &r, jespan_context_t context)
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

std::uint64_t jemalloc_bytes()
{
    std::uint64_t any = 1;
    EXPECT(F(mallctl)("epoch", nullptr, nullptr, &any, sizeof any) == 0);
    return figure("stats.allocated") - figure("stats.arenas." ARENAS_ALL ".tcache_bytes") -
           figure("stats.arenas." ARENAS_ALL ".internal");
}

struct owned {
    std::uint64_t objects, bytes;
};

owned in_table(jespan_context_t context)
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

const char *text_of(jespan_context_t context, const char *leaf)
{
    char name[64];
    const char *text = "";
    std::size_t bytes = sizeof text;
    std::snprintf(name, sizeof name, "spans.%u.%s", static_cast<unsigned>(context), leaf);
    F(mallctl)(name, &text, &bytes, nullptr, 0);
    return text;
}

// Exceptions that are set aside may be in the context of any region.
void check_context(jespan_context_t context, owned figures, bool is_aside)
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

void check_limit(jespan_context_t context)
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

// All threads but the main thread wait.
void rest_once(std::uint64_t n)
{
    rest = true;
    while (resting != threads + 1)
        usleep(200);
    tidied = 0;
    tidy_round++;
    while (tidied != threads)
        usleep(200);
    tidy();
    check_books();
    check_limits();
    if (n % 2 == 0)
        expect_empty();
    if (n % 3 == 0) {
        remove_limits();
        limits_change = !limits_change;
    }
    rest = false;
    while (resting)
        usleep(200);
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
    pthread_t thread[threads], one, limiter;
    double end = now() + static_cast<double>(environment("REGIONS_MIX_SECONDS", 1));
    first_seed = environment("REGIONS_MIX_SEED", 1);
    cache_span = jespan_open(&cache_site, JESPAN_ROOT, nullptr, 0);
    server = jespan_open(&server_site, JESPAN_ROOT, nullptr, 0);
    EXPECT(jespan_enter(cache_span) == 0);
    cache = jespan_current();
    EXPECT(jespan_exit(cache_span) == 0);
    EXPECT(jespan_set_limit_callback(count_event, nullptr) == 0);
    EXPECT(jespan_set_limit(cache, cache_bytes / 2, cache_bytes) == 0);
    worker first{{first_seed}, 1002};
    first.one_region(); // the first entry asks libc for memory, which a child must not do where another thread has the sanitizer's lock
    EXPECT(pthread_create(&one, nullptr, only_exit, nullptr) == 0);
    EXPECT(pthread_join(one, nullptr) == 0);
    for (std::uintptr_t i = 0; i < threads; i++)
        EXPECT(pthread_create(&thread[i], nullptr, run, reinterpret_cast<void *>(i)) == 0);
    EXPECT(pthread_create(&limiter, nullptr, change_limits, nullptr) == 0);
    for (std::uint64_t i = 0; now() < end || i < 3; i++) {
        EXPECT(pthread_create(&one, nullptr, run_shortly, reinterpret_cast<void *>(i)) == 0);
        EXPECT(pthread_join(one, nullptr) == 0);
        fork_one(i);
        if (i % 4 == 2)
            rest_once(i / 4);
    }
    rest_once(0);
    over = true;
    for (auto &t : thread)
        EXPECT(pthread_join(t, nullptr) == 0);
    EXPECT(pthread_join(limiter, nullptr) == 0);
    worker last{{first_seed}, 1001};
    for (int i = 0; i < 100 * coroutines; i++)
        last.coroutine();
    expect_empty();
    if (!limited.empty())
        remove_limits();
    return failures != 0;
}

// Each case runs in a process of its own.
const struct {
    const char *name, *malloc_conf, *jespan_conf;
} cases[] = {
    {"plain", "narenas:2", "max_arenas:64"},
    {"decay 0", "narenas:2,dirty_decay_ms:0,muzzy_decay_ms:0", "max_arenas:40"},
    {"background threads, decay 10", "narenas:2,background_thread:true,dirty_decay_ms:10,muzzy_decay_ms:10", "max_arenas:20"},
    {"few arenas, addresses go", "narenas:1,retain:false,dirty_decay_ms:0", "max_arenas:5"},
    {"ages", "narenas:2", "max_arenas:30,max_contexts:2000,age_period_s:1"},
    {"few contexts", "narenas:2", "max_arenas:30,max_contexts:300"},
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
