/* SPDX-License-Identifier: BSD-2-Clause */
/* Has more stacks than there are numbers. Each argument is done in turn:
 *
 *   paths FROM TO   holds an object of 100 bytes for each number, with a stack of its own below paths()
 *   others FROM TO  the same below others()
 *   many            holds 2,048 objects in 2,048 functions that one function calls
 *   free            frees all of them
 *   dump FILE       asks for a dump
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

#define OBJECTS 100000
static void *objects[OBJECTS];
static int n_objects;

#define APART __attribute__((noinline))

APART static void hold(void)
{
    objects[n_objects++] = malloc(100);
    __asm__ volatile("" ::: "memory");
}

/* ---- A path for each number: its bits say which of two functions calls the next ---- */

static void zero(unsigned path, unsigned depth);
static void one(unsigned path, unsigned depth);

APART static void walk(unsigned path, unsigned depth)
{
    if (depth == 0)
        hold();
    else if (path & 1)
        one(path >> 1, depth - 1);
    else
        zero(path >> 1, depth - 1);
    __asm__ volatile("" ::: "memory");
}

APART static void zero(unsigned path, unsigned depth)
{
    walk(path, depth);
    __asm__ volatile("" ::: "memory");
}

APART static void one(unsigned path, unsigned depth)
{
    walk(path, depth);
    __asm__ volatile("" ::: "memory");
}

#define DEPTH 12

APART static void paths(unsigned from, unsigned to)
{
    for (unsigned path = from; path < to; path++)
        walk(path, DEPTH);
    __asm__ volatile("" ::: "memory");
}

APART static void others(unsigned from, unsigned to)
{
    for (unsigned path = from; path < to; path++)
        walk(path, DEPTH);
    __asm__ volatile("" : : "i"(1) : "memory");
}

/* ---- Very many functions ---- */

#define F1(name)                                                                                                       \
    APART static void f##name(void)                                                                                    \
    {                                                                                                                  \
        hold();                                                                                                        \
        __asm__ volatile("" : : "i"(0##name) : "memory"); /* so that no two are one */                                 \
    }
#define F8(name) F1(name##0) F1(name##1) F1(name##2) F1(name##3) F1(name##4) F1(name##5) F1(name##6) F1(name##7)
#define F64(name) F8(name##0) F8(name##1) F8(name##2) F8(name##3) F8(name##4) F8(name##5) F8(name##6) F8(name##7)
#define F512(name) F64(name##0) F64(name##1) F64(name##2) F64(name##3) F64(name##4) F64(name##5) F64(name##6) F64(name##7)
F512(0) F512(1) F512(2) F512(3)

#define P1(name) f##name,
#define P8(name) P1(name##0) P1(name##1) P1(name##2) P1(name##3) P1(name##4) P1(name##5) P1(name##6) P1(name##7)
#define P64(name) P8(name##0) P8(name##1) P8(name##2) P8(name##3) P8(name##4) P8(name##5) P8(name##6) P8(name##7)
#define P512(name) P64(name##0) P64(name##1) P64(name##2) P64(name##3) P64(name##4) P64(name##5) P64(name##6) P64(name##7)
static void (*const functions[])(void) = {P512(0) P512(1) P512(2) P512(3)};

APART static void many(void)
{
    for (unsigned i = 0; i < sizeof functions / sizeof functions[0]; i++)
        functions[i]();
    __asm__ volatile("" ::: "memory");
}

static unsigned number(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "paths"))
            paths(number(argv[i + 1]), number(argv[i + 2])), i += 2;
        else if (!strcmp(argv[i], "others"))
            others(number(argv[i + 1]), number(argv[i + 2])), i += 2;
        else if (!strcmp(argv[i], "many"))
            many();
        else if (!strcmp(argv[i], "free"))
            while (n_objects)
                free(objects[--n_objects]);
        else if (!strcmp(argv[i], "dump") && mallctl("spans.dump", NULL, NULL, &argv[++i], sizeof(char *)))
            return 1;
    }
    return 0;
}
