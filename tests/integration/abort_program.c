/* SPDX-License-Identifier: BSD-2-Clause */
/* For abort.sh: prints a pointer, then corrupts the heap in the way that the argument names. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <jespan/jespan.h>

#include "../support/check.h"
#include "../support/family.h"

JESPAN_SITE_ARENA(arena_site, "arena", JESPAN_ARENA);
#define IN_ARENA                                                                                          \
    struct jespan_block block __attribute__((cleanup(jespan_exit_block)));                                             \
    jespan_enter_block(&block, &arena_site, NULL, 0)

static void *volatile kept;

static void *announce(void *p)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%p\n", p);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(2);
    return opaque_pointer(p);
}

/* More allocations and frees than any buffer or cache holds, of another size. */
static void work(void)
{
    for (int i = 0; i < 1000; i++)
        free(opaque_pointer(malloc(5000)));
}

static void *free_on_thread(void *p)
{
    free(p);
    return NULL;
}

static void on_thread(void *p)
{
    pthread_t thread;
    pthread_create(&thread, NULL, free_on_thread, p);
    pthread_join(thread, NULL);
}

static void double_small(void)
{
    void *p = announce(malloc(100));
    free(p);
    free(opaque_pointer(p));
}

static void double_small_later(void)
{
    void *p = announce(malloc(100));
    free(p);
    work();
    free(opaque_pointer(p));
    work();
}

/* Objects that come from where frees put them, so that frees need not wait; and one is had again before others are
 * counted. */
static void *pair[2];

static void free_some(size_t bytes)
{
    void *p[40];
    for (int i = 0; i < 40; i++)
        p[i] = opaque_pointer(malloc(bytes));
    for (int i = 0; i < 40; i++)
        free(p[i]);
}

static void take_pair_again(void)
{
    free_some(100);
    free_some(300);
    pair[0] = opaque_pointer(malloc(100));
    pair[1] = opaque_pointer(malloc(100));
}

static void double_reused(void)
{
    take_pair_again();
    announce(pair[1]);
    free(pair[1]);
    free(opaque_pointer(pair[1]));
    opaque_pointer(malloc(100));
    free_some(300);
}

static void double_reused_after_another(void)
{
    take_pair_again();
    announce(pair[0]);
    free(pair[0]);
    free(pair[1]);
    free(opaque_pointer(pair[0]));
    opaque_pointer(malloc(100));
    free_some(300);
}

static void double_zero_size(void)
{
    void *p = announce(malloc(0));
    free(p);
    free(opaque_pointer(p));
}

static void double_large(void)
{
    void *p = announce(malloc(1 << 20));
    free(p);
    free(opaque_pointer(p));
}

static void double_huge_later(void)
{
    void *p = announce(malloc((size_t)64 << 20));
    free(p);
    work();
    free(opaque_pointer(p));
}

static void double_aligned(void)
{
    void *p = announce(aligned_alloc(4096, 100));
    free(p);
    free(opaque_pointer(p));
}

static void double_across_threads(void)
{
    void *p = announce(malloc(100));
    on_thread(p);
    free(opaque_pointer(p));
}

static void double_large_across_threads(void)
{
    void *p = announce(malloc(100000));
    on_thread(p);
    free(opaque_pointer(p));
}

static void double_other_function(void)
{
    void *p = announce(malloc(100));
    free_sized(p, 100);
    sdallocx(opaque_pointer(p), 100, 0);
}

static void double_no_cache(void)
{
    void *p = announce(malloc(100));
    dallocx(p, 0x100);
    dallocx(opaque_pointer(p), 0x100);
}

static void realloc_after_free(void)
{
    void *p = announce(malloc(100));
    free(p);
    work();
    free(realloc(opaque_pointer(p), 1000));
}

static void foreign_stack(void)
{
    char data[64];
    free(announce(data + 16));
}

static void foreign_static(void)
{
    static char data[64];
    free(announce(data));
}

static void foreign_code(void)
{
    free(announce((void *)(uintptr_t)foreign_code));
}

static void foreign_mapping(void)
{
    free(announce(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void foreign_number(void)
{
    free(announce((void *)16));
}

static void foreign_kernel_address(void)
{
    free(announce((void *)0xffff800000001000));
}

static void foreign_realloc(void)
{
    static char data[64];
    free(realloc(announce(data), 1000));
}

static void foreign_on_thread(void)
{
    static char data[64];
    on_thread(announce(data));
}

/* Inside a large object, on a page of its own: no object starts there. */
static void interior_large(void)
{
    char *p = malloc(1 << 20);
    free(announce(p + 8192));
}

/* In a span arena: what was allocated last goes back at once, others wait. */
static void double_in_arena(void)
{
    IN_ARENA;
    void *p = announce(malloc(100));
    free(p);
    free(opaque_pointer(p));
}

static void double_in_arena_waiting(void)
{
    IN_ARENA;
    void *p = announce(malloc(100));
    kept = malloc(100);
    free(p);
    free(opaque_pointer(p));
}

static void double_in_arena_later(void)
{
    IN_ARENA;
    void *p = announce(malloc(100));
    kept = malloc(100);
    free(p);
    free_some(300);
    free(opaque_pointer(p));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(double_small),          CASE(double_small_later),    CASE(double_zero_size),
    CASE(double_reused),         CASE(double_reused_after_another),
    CASE(double_large),          CASE(double_huge_later),     CASE(double_aligned),
    CASE(double_across_threads), CASE(double_large_across_threads), CASE(double_other_function),
    CASE(double_no_cache),       CASE(realloc_after_free),    CASE(foreign_stack),
    CASE(foreign_static),        CASE(foreign_code),          CASE(foreign_mapping),
    CASE(foreign_number),        CASE(foreign_kernel_address), CASE(foreign_realloc),
    CASE(foreign_on_thread),     CASE(interior_large),        CASE(double_in_arena),
    CASE(double_in_arena_waiting), CASE(double_in_arena_later),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc < 2)
            puts(cases[i].name);
        else if (!strcmp(argv[1], cases[i].name))
            cases[i].run();
    }
    return 0;
}
