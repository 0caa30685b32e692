/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc conformance: the functions of C, POSIX, glibc and jemalloc do exactly what their manuals say. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>

#include "../support/ctl.h"
#include "../support/maps.h"

#define UNTOUCHED 12345
#define PAGE ((size_t)4096)
#define FLAG_TCACHE_NONE 0x100
#define FLAG_ARENA(a) ((int)(((a) + 1) << 20))

static bool is_aligned(const void *p, size_t align)
{
    return (uintptr_t)p % align == 0;
}

static bool is_all(const char *p, size_t n, char c)
{
    while (n > 0 && p[n - 1] == c)
        n--;
    return n == 0;
}

static bool is_power_of_two(size_t n)
{
    return n && !(n & (n - 1));
}

/* As the ABI asks: what fits into n bytes is aligned for any type that fits. */
static size_t natural_align(size_t n)
{
    return n >= 16 ? 16 : 8;
}

static void check_object(void *p, size_t n, size_t align)
{
    if (!p) {
        check_fail("no memory for %zu bytes, alignment %zu", n, align);
        return;
    }
    if (!is_aligned(p, align) || malloc_usable_size(p) < n)
        check_fail("%p: %zu bytes, alignment %zu, usable %zu", p, n, align, malloc_usable_size(p));
    memset(p, 0xa5, malloc_usable_size(p));
    free(p);
}

static void alignment_natural(void)
{
    for (size_t n = 0; n < 70000; n += n < 600 ? 1 : n / 7) {
        check_object(malloc(n), n, natural_align(n));
        check_object(calloc(1, n), n, natural_align(n));
        check_object(realloc(NULL, opaque(n)), n, natural_align(n));
        check_object(reallocarray(NULL, 1, n), n, natural_align(n));
        check_object(realloc(malloc(1), opaque(n ? n : 1)), n, natural_align(n));
        check_object(mallocx(n ? n : 1, 0), n, natural_align(n));
        check_object(rallocx(malloc(1), n ? n : 1, 0), n, natural_align(n));
    }
}

static void alignment_asked_for(void)
{
    for (size_t align = sizeof(void *); align <= (size_t)4 << 20; align *= 2)
        for (size_t n = 0; n <= (size_t)1 << 20; n = n * 5 + 3) {
            void *p = NULL;
            CHECK_EQ(posix_memalign(&p, align, n), 0);
            check_object(p, n, align);
            check_object(aligned_alloc(align, n), n, align);
            check_object(memalign(align, n), n, align);
            check_object(mallocx(n ? n : 1, FLAG_ALIGN(align)), n, align);
            check_object(rallocx(malloc(1), n ? n : 1, FLAG_ALIGN(align)), n, align);
        }
    check_object(aligned_alloc(1, opaque(10)), 10, 8);
    check_object(memalign(1, opaque(10)), 10, 8);
}

static void page_alignment(void)
{
    for (size_t n = 0; n < 4 * PAGE; n += 1001) {
        check_object(valloc(n), n, PAGE);
        check_object(pvalloc(n), (n + PAGE - 1) / PAGE * PAGE, PAGE);
    }
}

/* glibc rounds a bad alignment up; the manual page allows EINVAL. Nothing else will do. */
static void alignment_not_power_of_two(void)
{
    static const size_t bad[] = {0, 3, 24, 100, 4097, SIZE_MAX, (SIZE_MAX >> 1) + 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void *mark = &mark, *p = mark;
        errno = UNTOUCHED;
        CHECK_EQ(posix_memalign(&p, opaque(bad[i]), 64), EINVAL);
        CHECK_EQ(errno, UNTOUCHED);
        CHECK(p == mark);
        p = aligned_alloc(opaque(bad[i]), 64);
        CHECK(!p);
        CHECK_EQ(errno, EINVAL);
        errno = 0;
        p = memalign(opaque(bad[i]), 64);
        if (!p)
            CHECK(errno == EINVAL || errno == ENOMEM);
        else
            check_object(p, 64, bad[i] ? (size_t)1 << (63 - __builtin_clzll(bad[i])) : 8);
    }
    void *p = NULL;
    CHECK_EQ(posix_memalign(&p, opaque(4), 64), EINVAL); /* a power of two, below sizeof(void *) */
    CHECK_EQ(posix_memalign(&p, opaque(1), 64), EINVAL);
}

static void zero_sizes(void)
{
    size_t smallest = nallocx(1, 0);
    void *p[6] = {malloc(0), calloc(0, 8), calloc(8, 0), realloc(NULL, 0), aligned_alloc(8, 0), reallocarray(NULL, 0, 8)};
    for (int i = 0; i < 6; i++) {
        CHECK(p[i] != NULL);
        CHECK_EQ(malloc_usable_size(p[i]), smallest);
        for (int j = 0; j < i; j++)
            CHECK(p[i] != p[j]);
    }
    for (int i = 0; i < 6; i++)
        free(p[i]);
    free(opaque_pointer(NULL));
    free_sized(NULL, 0);
    free_aligned_sized(NULL, 64, 0);
    CHECK_EQ(malloc_usable_size(NULL), 0);
}

/* As jemalloc is configured: freed, which is the default on Linux, or a smallest object. */
static void realloc_to_zero(void)
{
    bool frees = strcmp(ctl_text("opt.zero_realloc"), "free") == 0;
    uint64_t before = ctl_u64("spans.all.inuse_objects");
    void *p = malloc(100);
    p = realloc(p, opaque(0));
    CHECK((p == NULL) == frees);
    free(p);
    p = reallocarray(malloc(100), opaque(0), 8);
    CHECK((p == NULL) == frees);
    free(p);
    CHECK_EQ(ctl_u64("spans.all.inuse_objects"), before);
}

#define CHECK_ENOMEM(call)                                                                                             \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK(opaque_pointer(call) == NULL);                                                                           \
        CHECK_EQ(errno, ENOMEM);                                                                                       \
    } while (0)

static void overflow(void)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - PAGE, (size_t)PTRDIFF_MAX + 1};
    char *volatile kept = malloc(100); /* volatile: the compiler takes a realloc() for a success */
    memset(kept, 7, 100);
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        size_t n = opaque(huge[i]);
        void *p = &p;
        CHECK_ENOMEM(malloc(n));
        CHECK_ENOMEM(calloc(n, 1));
        CHECK_ENOMEM(calloc(1, n));
        CHECK_ENOMEM(realloc(NULL, n));
        CHECK_ENOMEM(realloc(kept, n));
        CHECK_ENOMEM(reallocarray(kept, n, 1));
        CHECK_ENOMEM(aligned_alloc(64, n));
        CHECK_ENOMEM(memalign(64, n));
        CHECK_ENOMEM(valloc(n));
        CHECK_ENOMEM(pvalloc(n));
        errno = UNTOUCHED;
        CHECK_EQ(posix_memalign(&p, 64, n), ENOMEM);
        CHECK_EQ(errno, UNTOUCHED);
        CHECK(!mallocx(n, 0) && !rallocx(kept, n, 0));
        CHECK_EQ(nallocx(n, 0), 0);
    }
    size_t half = opaque(SIZE_MAX / 2);
    CHECK_ENOMEM(calloc(half, 3));
    CHECK_ENOMEM(calloc((size_t)1 << opaque(32), (size_t)1 << 32));
    CHECK_ENOMEM(calloc(half + 1, 2)); /* the product is 0 modulo 2^64 */
    CHECK_ENOMEM(reallocarray(kept, half + 1, 2));
    CHECK_ENOMEM(reallocarray(NULL, half, 3));
    CHECK_ENOMEM(aligned_alloc((size_t)1 << opaque(62), 64));
    CHECK(is_all(kept, 100, 7));
    free(kept);
}

static void errno_is_kept(void)
{
    static const size_t sizes[] = {0, 8, 100, 5000, 100000, (size_t)8 << 20, (size_t)64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int j = 0; j < 200; j++) {
            char *p = malloc(sizes[i]), *q = mallocx(sizes[i] + 1, 0), *r = malloc(sizes[i]);
            if (sizes[i])
                p[0] = r[0] = 1;
            errno = UNTOUCHED;
            free(p);
            dallocx(q, 0);
            free_sized(r, sizes[i]);
            CHECK_EQ(errno, UNTOUCHED);
        }
    errno = UNTOUCHED;
    free(opaque_pointer(NULL));
    free(malloc(10)); /* success does not touch it either */
    CHECK_EQ(errno, UNTOUCHED);
}

static void resize_in_place(void)
{
    char *volatile p = malloc(100);
    size_t usable = malloc_usable_size(p);
    CHECK_EQ(usable, nallocx(100, 0));
    memset(p, 3, usable);
    CHECK(realloc(p, usable) == p);
    CHECK(realloc(p, usable - 1) == p);
    CHECK(is_all(p, usable, 3));
    p = realloc(p, opaque(1 << 20));
    CHECK(is_all(p, 100, 3));
    p = realloc(p, opaque(50));
    CHECK(is_all(p, 50, 3));
    CHECK_EQ(malloc_usable_size(p), nallocx(50, 0));
    free(p);
}

static void extended_resize(void)
{
    char *p = mallocx(100, 0);
    CHECK_EQ(sallocx(p, 0), nallocx(100, 0));
    CHECK_EQ(xallocx(p, 105, 0, 0), nallocx(100, 0));
    CHECK_EQ(xallocx(p, 5000, 0, 0), nallocx(100, 0)); /* a small object cannot grow beyond its class */
    CHECK_EQ(xallocx(p, 50, 62, 0), nallocx(100, 0));
    dallocx(p, 0);
    p = mallocx(1 << 20, 0);
    memset(p, 9, 1 << 20);
    size_t shrunk = xallocx(p, 512 << 10, 0, 0);
    CHECK_EQ(shrunk, sallocx(p, 0));
    CHECK_EQ(shrunk, malloc_usable_size(p));
    CHECK_EQ(shrunk, nallocx(512 << 10, 0));
    CHECK(is_all(p, shrunk, 9));
    p = rallocx(p, 3 << 20, FLAG_ZERO | FLAG_ALIGN(1 << 16));
    CHECK(is_aligned(p, 1 << 16));
    CHECK(is_all(p, shrunk, 9));
    CHECK(is_all(p + shrunk, ((size_t)3 << 20) - shrunk, 0));
    sdallocx(p, 3 << 20, FLAG_ALIGN(1 << 16));
    p = mallocx(3000, FLAG_ZERO);
    CHECK(is_all(p, 3000, 0));
    sdallocx(p, 3000, 0);
}

/* Arenas and caches that the program chose are jemalloc's business, and ours stays right. */
static void explicit_arena(void)
{
    unsigned arena = 0;
    size_t length = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &length, NULL, 0), 0);
    void *small = mallocx(100, FLAG_ARENA(arena) | FLAG_TCACHE_NONE), *big = mallocx(1 << 20, FLAG_ARENA(arena));
    unsigned found = 0;
    CHECK_EQ(mallctl("arenas.lookup", &found, &length, &small, sizeof small), 0);
    CHECK_EQ(found, arena);
    ctl_check_identity("objects in an explicit arena");
    dallocx(small, FLAG_TCACHE_NONE);
    free(big);
    ctl_check_identity("objects in an explicit arena freed");
}

static void names_pass_through(void)
{
    size_t mib[5], length = 5, bytes = sizeof(size_t), allocated = 0, by_name = 0;
    CHECK(strncmp(ctl_text("version"), "5.", 2) == 0);
    CHECK(ctl_u64("stats.allocated") > 0);
    CHECK_EQ(mallctlnametomib("stats.arenas.0.small.allocated", mib, &length), 0);
    CHECK_EQ(length, 5);
    CHECK_EQ(mallctlbymib(mib, length, &allocated, &bytes, NULL, 0), 0);
    CHECK_EQ(mallctl("stats.arenas.0.small.allocated", &by_name, &bytes, NULL, 0), 0);
    CHECK_EQ(allocated, by_name);
    CHECK_EQ(mallctl("no.such.name", NULL, NULL, NULL, 0), ENOENT);
    CHECK_EQ(mallctl("version", NULL, NULL, &by_name, sizeof by_name), EPERM);
    bytes = 1;
    CHECK_EQ(mallctl("stats.allocated", &by_name, &bytes, NULL, 0), EINVAL);
}

static size_t printed_bytes;

static void count_printed(void *opaque_argument, const char *text)
{
    (void)opaque_argument;
    printed_bytes += strlen(text);
}

static void statistics_print(void)
{
    malloc_stats_print(count_printed, NULL, "gmdablxe");
    malloc_stats_print(count_printed, NULL, NULL);
    CHECK(printed_bytes > 100);
}

static void calloc_is_lazy(void)
{
    size_t n = (size_t)256 << 20, before = rss_bytes();
    char *p = calloc(opaque(1), n), *q = mallocx(n, FLAG_ZERO);
    CHECK(p && q);
    CHECK(p[n - 1] == 0 && q[n / 2] == 0);
    size_t grown = rss_bytes() - before;
    if (grown > (size_t)2 << 20)
        check_fail("512 MB of zeroes cost %zu bytes of RSS", grown);
    free(p);
    free(q);
    p = malloc(n); /* used memory must come back zeroed */
    memset(p, 1, n / 64);
    free(p);
    p = calloc(1, n);
    CHECK(is_all(p, n / 64, 0));
    free(p);
}

int main(void)
{
    CHECK(is_power_of_two(PAGE));
    alignment_natural();
    alignment_asked_for();
    page_alignment();
    alignment_not_power_of_two();
    zero_sizes();
    realloc_to_zero();
    overflow();
    errno_is_kept();
    resize_in_place();
    extended_resize();
    explicit_arena();
    names_pass_through();
    statistics_print();
    calloc_is_lazy();
    ctl_check_identity("the end");
    return check_result();
}
