/* SPDX-License-Identifier: BSD-2-Clause */
/* For heap_bugs.sh: prints a pointer, then makes the mistake that the argument names. It runs under any malloc.
 * Without an argument it lists all mistakes: name, a tab, description. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MANY 1000

static void *volatile hidden;

/* So that the compiler knows nothing about p. */
static void *opaque(void *p)
{
    hidden = p;
    return hidden;
}

static char *announce(void *p)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%p\n", p);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(2);
    return opaque(p);
}

static void *get(size_t bytes)
{
    void *p = malloc(bytes);
    if (p)
        memset(p, 0, bytes);
    return opaque(p);
}

/* Gets n objects, then frees them all, the first one first. */
static void *free_many(int n, size_t bytes)
{
    void *p[MANY];
    for (int i = 0; i < n; i++)
        p[i] = get(bytes);
    announce(p[0]);
    for (int i = 0; i < n; i++)
        free(p[i]);
    return opaque(p[0]);
}

static pthread_barrier_t freed;

static void *free_and_end(void *p)
{
    free(p);
    return NULL;
}

static void *free_and_stay(void *p)
{
    free(p);
    pthread_barrier_wait(&freed);
    pause();
    return NULL;
}

static void twice_at_once(void)
{
    void *p = announce(get(100));
    free(p);
    free(opaque(p));
}

static void twice_with_another_between(void)
{
    void *p = announce(get(100)), *q = get(100);
    free(p);
    free(q);
    free(opaque(p));
}

static void twice_with_40_between(void)
{
    free(free_many(41, 100));
}

static void twice_with_999_between(void)
{
    free(free_many(MANY, 100));
}

static void twice_by_two_threads(void)
{
    pthread_t thread;
    void *p = announce(get(100));
    pthread_create(&thread, NULL, free_and_end, p);
    pthread_join(thread, NULL);
    free(opaque(p));
}

static void twice_by_two_live_threads(void)
{
    pthread_t thread;
    void *p = announce(get(100));
    pthread_barrier_init(&freed, NULL, 2);
    pthread_create(&thread, NULL, free_and_stay, p);
    pthread_barrier_wait(&freed);
    free(opaque(p));
}

static void twice_large(void)
{
    void *p = announce(get(100000));
    free(p);
    free(opaque(p));
}

static void twice_huge(void)
{
    void *p = announce(malloc((size_t)64 << 20));
    free(p);
    free(opaque(p));
}

static void twice_aligned(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, 100))
        _exit(2);
    announce(p);
    free(p);
    free(opaque(p));
}

static void freed_after_realloc(void)
{
    void *p = announce(get(100)), *q = realloc(p, 50000);
    free(opaque(p));
    free(q);
}

static void twice_and_reused(void)
{
    void *p = announce(get(100)), *others[MANY], *q = NULL;
    free(p);
    for (int i = 0; i < 40; i++)
        others[i] = get(3000);
    for (int i = 0; i < 40; i++)
        free(others[i]);
    for (int i = 0; i < MANY && q != p; i++)
        q = get(100);
    free(opaque(p));
}

static void inside_1(void)
{
    free(announce((char *)get(100) + 1));
}

static void inside_8(void)
{
    free(announce((char *)get(100) + 8));
}

static void inside_16(void)
{
    free(announce((char *)get(100) + 16));
}

static void inside_middle(void)
{
    free(announce((char *)get(1000) + 512));
}

static void inside_aligned(void)
{
    free(announce((char *)memalign(64, 640) + 64));
}

static void inside_large_16(void)
{
    free(announce((char *)get(100000) + 16));
}

static void inside_large_page(void)
{
    free(announce((char *)get(1000000) + 8192));
}

static void before_start(void)
{
    free(announce((char *)get(1000) - 16));
}

static void of_stack(void)
{
    char data[256] = {0};
    free(announce(data + 64));
}

static void of_static(void)
{
    static char data[256];
    free(announce(data + 64));
}

static void of_code(void)
{
    free(announce((void *)(uintptr_t)of_code));
}

static void of_mapping(void)
{
    free(announce(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void of_break(void)
{
    free(announce((char *)sbrk(8192) + 64));
}

static void of_number(void)
{
    free(announce((void *)0x4141414141414140));
}

static void realloc_freed(void)
{
    void *p = announce(get(100));
    free(p);
    free(realloc(opaque(p), 50000));
}

static void realloc_freed_in_place(void)
{
    void *p = announce(get(100));
    free(p);
    free(realloc(opaque(p), 110)); /* of the same size class */
}

static void realloc_inside(void)
{
    free(realloc(announce((char *)get(100) + 16), 50000));
}

static void realloc_stack(void)
{
    char data[256] = {0};
    free(realloc(announce(data + 64), 50000));
}

/* ---- Wrong accesses ---- */

#define PAGE 4096

static char *new_page(void)
{
    return announce(get(PAGE));
}

static void write_after_free(void)
{
    char *p = new_page();
    free(p);
    *(volatile char *)(p + 1000) = 1;
}

static void read_after_free(void)
{
    char *p = new_page();
    free(p);
    (void)*(volatile char *)(p + 1000);
}

static void read_beyond(void)
{
    (void)*(volatile char *)(new_page() + PAGE);
}

static void write_beyond(void)
{
    char *p = announce(get(25));
    *(volatile char *)(p + 25) = 1;
    free(p);
}

static void read_before(void)
{
    (void)*(volatile char *)(new_page() - 1);
}

static const struct {
    const char *name, *what;
    void (*run)(void);
} bugs[] = {
#define BUG(name, what) {#name, what, name}
    BUG(twice_at_once, "`free(p)` twice"),
    BUG(twice_with_another_between, "… with another free between them"),
    BUG(twice_with_40_between, "… with 40 others, of its size, between them"),
    BUG(twice_with_999_between, "… with 999 others, of its size, between them"),
    BUG(twice_by_two_threads, "… the first by a thread that has ended"),
    BUG(twice_by_two_live_threads, "… the first by a thread that still runs"),
    BUG(twice_large, "… of 100,000 bytes"),
    BUG(twice_huge, "… of 64 MiB"),
    BUG(twice_aligned, "… of `posix_memalign()`"),
    BUG(freed_after_realloc, "`free(p)` after `realloc(p, n)` moved it"),
    BUG(twice_and_reused, "`free(p)` twice, and `malloc()` gave it to another owner between them"),
    BUG(inside_1, "`free(p + 1)`"),
    BUG(inside_8, "`free(p + 8)`"),
    BUG(inside_16, "`free(p + 16)` of 100 bytes"),
    BUG(inside_middle, "`free(p + 512)` of 1,000 bytes"),
    BUG(inside_aligned, "`free(p + 64)` of `memalign(64, 640)`"),
    BUG(inside_large_16, "`free(p + 16)` of 100,000 bytes"),
    BUG(inside_large_page, "`free(p + 8192)` of 1,000,000 bytes"),
    BUG(before_start, "`free(p - 16)`"),
    BUG(of_stack, "`free()` of an address on the stack"),
    BUG(of_static, "… in a static array"),
    BUG(of_code, "… of a function"),
    BUG(of_mapping, "… from `mmap()`"),
    BUG(of_break, "… from `sbrk()`"),
    BUG(of_number, "… that is no address at all"),
    BUG(realloc_freed, "`realloc(p, n)` after `free(p)`"),
    BUG(realloc_freed_in_place, "… where the size class stays"),
    BUG(realloc_inside, "`realloc(p + 16, n)` of 100 bytes"),
    BUG(realloc_stack, "`realloc()` of an address on the stack"),
    BUG(write_after_free, "writing to `p` after `free(p)`"),
    BUG(read_after_free, "reading from `p` after `free(p)`"),
    BUG(read_beyond, "reading the byte beyond 4,096 bytes"),
    BUG(write_beyond, "writing the byte beyond 25 bytes, then `free(p)`"),
    BUG(read_before, "reading the byte before 4,096 bytes"),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        if (argc < 2)
            printf("%s\t%s\n", bugs[i].name, bugs[i].what);
        else if (!strcmp(argv[1], bugs[i].name))
            bugs[i].run();
    }
    return 0;
}
