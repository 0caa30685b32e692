// SPDX-License-Identifier: BSD-2-Clause
// The threads of the mix: what they do at random with regions, arenas and their spans.
#include "regions_mix.h"

#include <cerrno>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/family.h"

namespace mix {
namespace {

JESPAN_SITE_ARENA(request_site, "request", JESPAN_ARENA_REGION);
JESPAN_SITE_ARENA(wiped_site, "wiped", JESPAN_ARENA_REGION | JESPAN_ARENA_WIPED);
JESPAN_SITE_ARENA(refusing_site, "refusing", JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE);
JESPAN_SITE_ARENA(step_site, "step", 0);
constexpr int tenants = 40;
const jespan_site tenant_site = {"tenant", nullptr, nullptr, 0, {JESPAN_ARENA, 0, 0, 0, 0, "tenant"}};

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

std::atomic<unsigned> tidy_round;
std::atomic<int> tidied;

} // namespace

void tidy()
{
    jespan_close(jespan_open(&request_site, JESPAN_ROOT, nullptr, 0));
}

void tidy_all()
{
    tidied = 0;
    tidy_round++;
    while (tidied != threads)
        usleep(200);
    tidy();
}

// Waits until the others go on. Coroutines have ended by then.
static void pause(worker &w)
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

void run_one_region()
{
    worker first{{first_seed}, 1002};
    first.one_region();
}

void end_coroutines()
{
    worker last{{first_seed}, 1001};
    for (int i = 0; i < 100 * coroutines; i++)
        last.coroutine();
}

} // namespace mix
