// SPDX-License-Identifier: BSD-2-Clause
// A random mix of regions, arenas, limits and their spans, compared with a model. Every object names its own contents and its owner, so
// any thread can check it. The model counts the objects of each region. Limits are set, changed and removed meanwhile. A refused request
// changes nothing, and nothing is refused where no limit is. Now and then all threads rest. Then each context has what the model says. The
// contexts' sum, the live bytes and jemalloc's own count are the same. Each limit's figure is what is in use below it.
//
// REGIONS_MIX_SECONDS is the duration of each case (1). REGIONS_MIX_SEED selects another mix.
#include "regions_mix.h"

#include <ctime>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/limit.h>

extern "C" {
#include "../support/many_locks.h"
}

using namespace mix;

namespace {

JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(server_site, "server", 0);

void check_event(const jespan_limit_event *event, void *)
{
    EXPECT(event->path && event->limit_bytes);
}

// All threads but the main thread wait.
void rest_once(std::uint64_t n)
{
    rest = true;
    while (resting != threads + 1)
        usleep(200);
    tidy_all();
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

int run_mix()
{
    pthread_t thread[threads], one, limiter;
    double end = now() + static_cast<double>(environment("REGIONS_MIX_SECONDS", 1));
    first_seed = environment("REGIONS_MIX_SEED", 1);
    jespan_span_t *cache_span = jespan_open(&cache_site, JESPAN_ROOT, nullptr, 0);
    server = jespan_open(&server_site, JESPAN_ROOT, nullptr, 0);
    EXPECT(jespan_enter(cache_span) == 0);
    cache = jespan_current();
    EXPECT(jespan_exit(cache_span) == 0);
    EXPECT(jespan_set_limit_callback(check_event, nullptr) == 0);
    EXPECT(jespan_set_limit(cache, cache_bytes / 2, cache_bytes) == 0);
    run_one_region(); // the first entry asks libc for memory, which a child must not do where another thread has the sanitizer's lock
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
    end_coroutines();
    expect_empty();
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
        return run_mix();
    for (std::size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        failed += run_case(i);
    return failed != 0;
}
