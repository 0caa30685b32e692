// SPDX-License-Identifier: BSD-2-Clause
// Prints its mappings and stacks of many kinds as lines for tests/support/make_stacks.c: inlined functions, templates,
// operators, lambdas, a static function, and a function of the library that is the first argument.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <memory>
#include <string>
#include <vector>

extern "C" __attribute__((noinline)) void print_stack(void)
{
    void *frames[64];
    int n = backtrace(frames, 64);
    std::printf("sample 100 request,cache route=/look");
    for (int i = 0; i < n; i++)
        std::printf(" %lx", (unsigned long)frames[i] - 1);
    std::printf("\n");
}

#define ALWAYS inline __attribute__((always_inline))

namespace shop {

template <class T> struct table {
    std::vector<T> items;

    ALWAYS void grow(T item)
    {
        items.push_back(item);
        print_stack();
    }

    __attribute__((noinline)) void add(T item)
    {
        grow(item);
        std::printf("#\n");
    }
};

struct point {
    int x;
    __attribute__((noinline)) point operator+(const point &other) const
    {
        print_stack();
        return {x + other.x};
    }
};

ALWAYS void inner(int n)
{
    for (int i = 0; i < n; i++)
        print_stack();
}

ALWAYS void middle(int n)
{
    inner(n);
    inner(1);
}

__attribute__((noinline)) int outer(int n)
{
    middle(n);
    auto lambda = [n](const std::string &text) __attribute__((noinline)) {
        print_stack();
        return (int)text.size() + n;
    };
    return lambda("text");
}

} // namespace shop

static __attribute__((noinline)) int recurse(int n)
{
    if (n == 0) {
        print_stack();
        return 0;
    }
    return recurse(n - 1) + n;
}

int main(int argc, char **argv)
{
    static char line[8192];
    shop::table<std::string> texts;
    shop::table<std::pair<int, const char *>> pairs;
    texts.add("a");
    pairs.add({1, "b"});
    int sum = shop::outer(2) + recurse(3) + (shop::point{1} + shop::point{2}).x;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    using call = void(void (*)());
    if (library) {
        auto *found = reinterpret_cast<call *>(dlsym(library, "call_back"));
        found(print_stack);
        std::printf("#\n");
    }
    std::FILE *maps = std::fopen("/proc/self/maps", "r");
    while (maps && std::fgets(line, sizeof line, maps))
        if (std::strstr(line, "r-xp"))
            std::printf("map %s", line);
    return sum == 0;
}
