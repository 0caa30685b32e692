// SPDX-License-Identifier: BSD-2-Clause
// What the files of regions_mix share: the state of the mix, objects that name their contents, and what each file has for the others.
#ifndef JESPAN_TESTS_REGIONS_MIX_H
#define JESPAN_TESTS_REGIONS_MIX_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <jespan/jespan.hpp>

namespace mix {

constexpr int threads = 6, table_size = 64, coroutines = 4, recent_contexts = 64;
constexpr std::uint64_t cache_bytes = 8 << 20; // the limit of the cache, which it has from the start
inline std::atomic<void *> table[table_size];
inline std::atomic<bool> over, rest, limits_change{true};
inline std::atomic<int> failures, resting;
inline std::atomic<jespan_context_t> recent[recent_contexts]; // contexts that may get a limit
inline jespan_span_t *server;
inline jespan_context_t cache;
inline std::uint64_t first_seed;

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

// ---- regions_mix_objects.cc ----

struct head {
    std::uint64_t bytes, seed;
    jespan_context_t owner; // if the object is in the table
};

// A figure of mallctl, which must have it.
std::uint64_t figure(const char *name);

// Whether contexts have run out. Then a span may get the context of another span, which holds objects that the model does not know.
bool contexts_are_shared();

// Objects of any size. NULL: a limit refused it.
void *make(random_numbers &r);
void *resize(random_numbers &r, void *p);

// Whether the object has its own contents; aborts if not.
void check(const void *p);

// Checks and frees an object, or does nothing for NULL.
void drop(void *p);

// Puts an object into the table, and drops the one that was there. The owner is that of the object if it is given.
void hand_out(random_numbers &r, void *p, jespan_context_t owner = JESPAN_INVALID);

// ---- regions_mix_worker.cc ----

// Threads. The argument is a number. run() works until all is over, run_shortly() ends inside a region.
void *run(void *number);
void *run_shortly(void *number);
void *only_exit(void *);

// One region in this thread, the end of all coroutines, and a child that works a little.
void run_one_region();
void end_coroutines();
void fork_one(std::uint64_t n);

// A thread reports by itself that its exceptions are over: this one does, and all others do that rest.
void tidy();
void tidy_all();

// ---- regions_mix_checks.cc ----

// A thread: sets and changes limits until all is over.
void *change_limits(void *);
void remove_limits();

// For the main thread, while all others rest.
void check_books();
void check_limits();
void expect_empty();

} // namespace mix

#endif
