/* SPDX-License-Identifier: BSD-2-Clause */
/* Generates functions that only call another one, as Python does for each of its own, and names them in a perf map. Allocates an object
 * through each kind of function by each name, says "ready", and waits until its input ends. At a line "anew" it writes another map.
 *
 * usage: generated_program NAME…      `-` before the names: no perf map */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Each calls its first argument with the same arguments. */
static const struct kind {
    const unsigned char *code;
    size_t bytes;
} kinds[] = {
    {(const unsigned char[]){0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3}, 11},       /* sub, call, add, ret */
    {(const unsigned char[]){0x53, 0xff, 0xd7, 0x5b, 0xc3}, 5},                                             /* push and pop %rbx */
    {(const unsigned char[]){0x41, 0x54, 0x55, 0x53, 0xff, 0xd7, 0x5b, 0x5d, 0x41, 0x5c, 0xc3}, 11},        /* %r12, %rbp, %rbx */
    {(const unsigned char[]){0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}, 8},                           /* a frame pointer */
    {(const unsigned char[]){0x48, 0x81, 0xec, 0x88, 0, 0, 0, 0xff, 0xd7, 0x48, 0x81, 0xc4, 0x88, 0, 0, 0, 0xc3}, 17},
};
#define KINDS (sizeof kinds / sizeof kinds[0])
#define PLACE 32 /* bytes of a function */

static void *kept[1000];
static int n_kept;

static __attribute__((noinline)) void allocate(void)
{
    kept[n_kept++] = malloc(100);
    __asm__ volatile("" : : : "memory");
}

/* Has the name of a function of CPython's interpreter. */
__attribute__((noinline)) void _PyEval_EvalFrameDefault(void);
void _PyEval_EvalFrameDefault(void)
{
    allocate();
    __asm__ volatile("" : : : "memory");
}

static void write_map(const unsigned char *code, char **names, int n)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    unlink(path);
    FILE *map = fopen(path, "w");
    if (!map)
        exit(1);
    fputs("no entry\n\n12 zz nothing\n0 0 empty\n", map);
    for (int i = 0; i < n; i++)
        fprintf(map, "%lx %x old name of %d\n", (unsigned long)(code + PLACE * KINDS * i), (unsigned)(PLACE * KINDS), i);
    for (int i = 0; i < n; i++)
        fprintf(map, "%s%lx %x %s\n", i % 2 ? "0x" : "", (unsigned long)(code + PLACE * KINDS * i), (unsigned)(PLACE * KINDS), names[i]);
    fclose(map);
}

int main(int argc, char **argv)
{
    char line[64];
    int with_map = argc > 1 && strcmp(argv[1], "-") != 0, n = argc - 1 - !with_map;
    char **names = argv + 1 + !with_map;
    size_t bytes = PLACE * KINDS * (size_t)n + 4096;
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    unsigned char *code = memory + 4096 - PLACE / 2; /* one function lies in two pages */
    for (size_t i = 0; i < KINDS * (size_t)n; i++)
        memcpy(code + PLACE * i + PLACE - 1 - kinds[i % KINDS].bytes, kinds[i % KINDS].code, kinds[i % KINDS].bytes);
    if (with_map)
        write_map(code, names, n);
    for (size_t i = 0; i < KINDS * (size_t)n; i++) {
        void (*function)(void *) = (void (*)(void *))(code + PLACE * i + PLACE - 1 - kinds[i % KINDS].bytes);
        function((void *)_PyEval_EvalFrameDefault);
        __asm__ volatile("" : : : "memory");
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        if (!strcmp(line, "anew\n")) {
            for (int i = 0; i < n; i++)
                names[i] = (char *)"another program's";
            write_map(code, names, n);
            puts("anew");
            fflush(stdout);
        }
    return 0;
}
