#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# C++'s operators new and delete: all forms, no memory, handlers, programs and libraries that replace some of them or malloc, and
# a C++ library that a C program loads.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
cd "$scratch"

# All 20 forms. What is allocated and freed is counted, once each.
cat > forms.cc << 'END'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

extern "C" int mallctl(const char *, void *, size_t *, void *, size_t);

static uint64_t figure(const char *name)
{
    uint64_t value = 0, any = 1;
    size_t length = sizeof value;
    mallctl("spans.epoch", nullptr, nullptr, &any, sizeof any);
    if (mallctl(name, &value, &length, nullptr, 0))
        std::abort();
    return value;
}

static int failed;

template <class Allocate, class Free> static void check(const char *what, size_t alignment, Allocate allocate, Free release)
{
    uint64_t allocated = figure("spans.all.alloc_requested_bytes"), freed = figure("spans.all.free_objects");
    for (int i = 0; i < 3; i++) {
        char *volatile p = static_cast<char *>(allocate(1000 + i));
        if (!p || reinterpret_cast<uintptr_t>(p) % alignment) {
            std::printf("%s: %p\n", what, p);
            failed = 1;
        }
        for (int n = 0; n < 1000 + i; n++)
            p[n] = 1;
        release(p, 1000 + i);
    }
    allocated = figure("spans.all.alloc_requested_bytes") - allocated;
    freed = figure("spans.all.free_objects") - freed;
    /* libstdc++ asks for whole multiples of the alignment */
    if (allocated != (alignment > 16 ? 3072 : 3003) || freed != 3) {
        std::printf("%s: %ju bytes, %ju frees\n", what, uintmax_t(allocated), uintmax_t(freed));
        failed = 1;
    }
}

int main()
{
    constexpr auto al = std::align_val_t(256);
    std::printf("start\n");
    check("new", 16, [](size_t n) { return operator new(n); }, [](void *p, size_t) { operator delete(p); });
    check("new[]", 16, [](size_t n) { return operator new[](n); }, [](void *p, size_t) { operator delete[](p); });
    check("sized", 16, [](size_t n) { return operator new(n); }, [](void *p, size_t n) { operator delete(p, n); });
    check("sized[]", 16, [](size_t n) { return operator new[](n); }, [](void *p, size_t n) { operator delete[](p, n); });
    check("nothrow", 16, [](size_t n) { return operator new(n, std::nothrow); },
          [](void *p, size_t) { operator delete(p, std::nothrow); });
    check("nothrow[]", 16, [](size_t n) { return operator new[](n, std::nothrow); },
          [](void *p, size_t) { operator delete[](p, std::nothrow); });
    check("aligned", 256, [](size_t n) { return operator new(n, al); }, [](void *p, size_t) { operator delete(p, al); });
    check("aligned[]", 256, [](size_t n) { return operator new[](n, al); }, [](void *p, size_t) { operator delete[](p, al); });
    check("aligned sized", 256, [](size_t n) { return operator new(n, al); },
          [](void *p, size_t n) { operator delete(p, n, al); });
    check("aligned sized[]", 256, [](size_t n) { return operator new[](n, al); },
          [](void *p, size_t n) { operator delete[](p, n, al); });
    check("aligned nothrow", 256, [](size_t n) { return operator new(n, al, std::nothrow); },
          [](void *p, size_t) { operator delete(p, al, std::nothrow); });
    check("aligned nothrow[]", 256, [](size_t n) { return operator new[](n, al, std::nothrow); },
          [](void *p, size_t) { operator delete[](p, al, std::nothrow); });
    operator delete(nullptr);
    operator delete[](nullptr);
    return failed;
}
END

# No memory: std::bad_alloc, handlers that make room, throw, or give up.
cat > fails.cc << 'END'
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>

static volatile size_t much = SIZE_MAX / 4, room = size_t(1) << 30;
static void *reserve;
static int calls, failed;
struct Own {};

#define EXPECT(condition) ((condition) ? void() : (std::printf("line %d: %s\n", __LINE__, #condition), void(failed = 1)))

template <class Exception, class F> static bool throws(F f)
{
    try {
        f();
    } catch (const Exception &) {
        return true;
    }
    return false;
}

static void gives_room() { calls++, munmap(reserve, room + (room >> 2)), std::set_new_handler(nullptr); }
static void gives_up() { if (++calls == 3) std::set_new_handler(nullptr); }
static void throws_own() { calls++; throw Own(); }
static void throws_bad() { calls++; throw std::bad_alloc(); }

int main()
{
    constexpr auto al = std::align_val_t(64);
    EXPECT(throws<std::bad_alloc>([] { return operator new(much); }));
    EXPECT(throws<std::bad_alloc>([] { return operator new[](much); }));
    EXPECT(throws<std::bad_alloc>([] { return operator new(much, al); }));
    EXPECT(throws<std::bad_alloc>([] { return operator new[](much, al); }));
    EXPECT(!operator new(much, std::nothrow));
    EXPECT(!operator new[](much, std::nothrow));
    EXPECT(!operator new(much, al, std::nothrow));
    std::set_new_handler(throws_own);
    EXPECT(throws<Own>([] { return operator new(much); }) && calls == 1);
    EXPECT(throws<Own>([] { return operator new(much, al); }) && calls == 2);
    std::set_new_handler(throws_bad);
    EXPECT(!operator new(much, std::nothrow) && calls == 3);
    calls = 0;
    std::set_new_handler(gives_up);
    EXPECT(throws<std::bad_alloc>([] { return operator new(much); }) && calls == 3);
    calls = 0;
    rlimit all;
    getrlimit(RLIMIT_AS, &all);
    reserve = mmap(nullptr, room + (room >> 2), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t in_use = 0;
    FILE *statm = std::fopen("/proc/self/statm", "r");
    if (!statm || std::fscanf(statm, "%zu", &in_use) != 1)
        std::abort();
    rlimit now = {in_use * 4096 + (room >> 3), all.rlim_max};
    setrlimit(RLIMIT_AS, &now);
    std::set_new_handler(gives_room);
    void *p = operator new(room);
    EXPECT(p && calls == 1);
    operator delete(p);
    std::fclose(statm);
    return failed;
}
END

# The program replaces two operators. Those that it does not replace go through them.
cat > pool.h << 'END'
#include <cstddef>
#include <cstdio>
#include <new>

alignas(16) static char pool[1 << 16];
static size_t used, released;

void *operator new(size_t n)
{
    void *p = pool + used;
    used += (n + 15) / 16 * 16;
    return p;
}

void operator delete(void *p) noexcept
{
    released += static_cast<char *>(p) >= pool && static_cast<char *>(p) < pool + sizeof pool;
}
END
cat > replaces.cc << 'END'
#include "pool.h"
#include <string>

int main()
{
    int *volatile one = new int; /* volatile: else compilers leave both out */
    delete one;
    double *volatile some = new double[5];
    delete[] some;
    operator delete(operator new(10, std::nothrow), std::nothrow);
    operator delete(operator new(10), 10);
    operator delete[](operator new[](10), 10);
    { std::string text(100, 'x'); }
    alignas(64) static volatile int sink;
    struct alignas(64) Wide { char c[64]; };
    Wide *wide = new Wide;
    sink = wide->c[0];
    delete wide;
    std::printf("%d\n", int(released));
    return released != 6;
}
END

# The same in a library that the program is linked with, which is searched after jespan.
cat > library.cc << 'END'
#include "pool.h"
size_t pool_released() { return released; }
END
cat > uses.cc << 'END'
#include <cstdio>
#include <new>
#include <string>
size_t pool_released();

int main()
{
    int *volatile one = new int;
    delete one;
    double *volatile some = new double[5];
    delete[] some;
    operator delete(operator new(10, std::nothrow), std::nothrow);
    operator delete(operator new(10), 10);
    { std::string text(100, 'x'); }
    std::printf("%d\n", int(pool_released()));
    return pool_released() != 5;
}
END

# The program replaces malloc and free.
cat > mallocs.cc << 'END'
#include <cstdio>
#include <cstdlib>
#include <new>

alignas(16) static char pool[1 << 22];
static size_t used, released;

extern "C" void *malloc(size_t n)
{
    void *p = pool + used;
    used += (n + 15) / 16 * 16;
    return used < sizeof pool ? p : nullptr;
}
extern "C" void free(void *p) { released += static_cast<char *>(p) >= pool && static_cast<char *>(p) < pool + sizeof pool; }
extern "C" void *calloc(size_t n, size_t m) { return malloc(n * m); }
extern "C" void *realloc(void *, size_t n) { return malloc(n); }

int main()
{
    size_t before = released;
    char *volatile p = new char[100];
    bool from_pool = p >= pool && p < pool + sizeof pool;
    delete[] p;
    operator delete(operator new(10), 10);
    std::printf("%d %d\n", from_pool, int(released - before));
    return !from_pool || released - before != 2;
}
END

# A C program loads a C++ library, for itself alone.
cat > plugin.cc << 'END'
#include <cstdint>
#include <new>
#include <string>
#include <vector>

extern "C" int run()
{
    static volatile size_t much = SIZE_MAX / 4;
    std::vector<std::string> texts;
    for (int i = 0; i < 100; i++)
        texts.emplace_back(size_t(i) * 10, 'x');
    int caught = 0;
    try {
        static void *volatile p = operator new(much);
        (void)p;
    } catch (const std::bad_alloc &) {
        caught++;
    }
    std::set_new_handler([] { throw 7; });
    try {
        static void *volatile p = operator new[](much);
        (void)p;
    } catch (int) {
        caught++;
    }
    std::set_new_handler([] { throw std::bad_alloc(); });
    caught += !operator new(much, std::nothrow);
    std::set_new_handler(nullptr);
    caught += !operator new(much, std::nothrow);
    return caught;
}
END
cat > loads.c << 'END'
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argc;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : NULL;
    if (!run)
        return printf("%s\n", dlerror()), 2;
    int caught = run();
    printf("%d\n", caught);
    return caught != 4 || dlclose(library);
}
END

read -ra cc <<< "$CC"
read -ra cxx <<< "$CXX"
flags=(-std=c++17 -O1 -fsized-deallocation)
"${cxx[@]}" "${flags[@]}" -o forms forms.cc -L"${JESPAN_LIB%/*}" -ljespan -Wl,-rpath,"${JESPAN_LIB%/*}"
"${cxx[@]}" "${flags[@]}" -o fails fails.cc
"${cxx[@]}" "${flags[@]}" -static-libstdc++ -o fails_static fails.cc
"${cxx[@]}" "${flags[@]}" -o replaces replaces.cc
"${cxx[@]}" "${flags[@]}" -shared -fPIC -o libpool.so library.cc
"${cxx[@]}" "${flags[@]}" -o uses uses.cc -L. -lpool -Wl,-rpath,"$PWD"
"${cxx[@]}" "${flags[@]}" -o mallocs mallocs.cc
"${cxx[@]}" "${flags[@]}" -shared -fPIC -o plugin.so plugin.cc
"${cxx[@]}" "${flags[@]}" -shared -fPIC -static-libstdc++ -o plugin_static.so plugin.cc
"${cc[@]}" -o loads loads.c -ldl

# preloaded COMMAND…
preloaded() {
    LD_PRELOAD=$JESPAN_LIB "$@" > said 2>&1 || fail_with "$*: exit $?" said
}

for program in fails fails_static replaces uses mallocs "loads ./plugin.so" "loads ./plugin_static.so"; do
    read -ra command <<< "./$program"
    "${command[@]}" > said 2>&1 || fail_with "$program fails without jespan" said
    preloaded "${command[@]}"
done
preloaded ./forms
preloaded env JESPAN_CONF=stacks:all ./forms
preloaded env JESPAN_CONF=stacks:sampled ./fails

finish
