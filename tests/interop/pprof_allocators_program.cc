// SPDX-License-Identifier: BSD-2-Clause
// Allocates by functions that pprof_allocators.sh expects to be left out of stacks, and in a constructor that an allocator of C++ calls.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define NOINLINE __attribute__((noinline))

extern "C" {

NOINLINE void *zmalloc(std::size_t n)
{
    void *p = std::malloc(n);
    return std::memset(p, 1, n);
}

NOINLINE void *xmalloc(std::size_t n)
{
    char *p = static_cast<char *>(zmalloc(n));
    p[0] = 2;
    return p;
}

// Not the name of an allocator, though it begins as one.
NOINLINE void *xmallow(std::size_t n)
{
    char *p = static_cast<char *>(xmalloc(n));
    p[0] = 3;
    return p;
}
}

struct Part {
    char *text;

    NOINLINE explicit Part(std::size_t n) : text(static_cast<char *>(zmalloc(n))) { text[0] = 1; }
};

static std::vector<Part> parts;
static std::unique_ptr<std::vector<long>> numbers;
static char *kept[2];

NOINLINE static void add_part()
{
    parts.emplace_back(30000u);
}

NOINLINE static void add_numbers()
{
    numbers = std::make_unique<std::vector<long>>();
    numbers->reserve(2000);
}

NOINLINE static void get()
{
    kept[0] = static_cast<char *>(xmallow(10000));
    kept[1] = new char[7000];
}

int main()
{
    add_part();
    add_numbers();
    get();
    return kept[0] == kept[1];
}
