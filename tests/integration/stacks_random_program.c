/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocates at the end of random paths of calls, and knows what each path allocated and has in use. The frames are of all kinds
 * that compilers make, and many paths have frames at the same places. Prints "PATH OBJECTS LIVE", and waits for the end of
 * standard input. Fails if calloc() returns memory that is not zero. The arguments are the number of paths, and a seed. With a third
 * one, most paths have all but their innermost calls in common with the path before. */
#include <alloca.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPERATIONS 100000
#define SLOTS 512
#define DEPTH_MOST 18
#define CALL __attribute__((noinline, noclone)) static void
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")

struct path {
    uint8_t depth, leaf, frames[DEPTH_MOST];
    size_t size, slack; /* `slack` is for alloca() */
    unsigned long objects, freed;
};
struct job {
    const struct path *path;
    unsigned at;
    void *result;
};

static struct path *paths;
static unsigned long n_paths, state;
static bool is_near;

static unsigned long draw(unsigned long n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* ---- Calls ---- */

enum { CALLS = 7, FRAMES = 2 * CALLS };
CALL go_a(struct job *j);
CALL go_b(struct job *j);
static void (*const goes[])(struct job *) = {go_a, go_b};

#define LEAF(name, call)                                                                                               \
    CALL name(struct job *j)                                                                                           \
    {                                                                                                                  \
        size_t size = j->path->size;                                                                                   \
        j->result = call;                                                                                              \
        KEEP(j);                                                                                                       \
    }
LEAF(leaf_a, malloc(size))
LEAF(leaf_b, malloc(size))
LEAF(leaf_c, calloc(1, size))
LEAF(leaf_d, realloc(NULL, size))
LEAF(leaf_e, aligned_alloc(16, size / 16 * 16))
static void (*const leaves[])(struct job *) = {leaf_a, leaf_b, leaf_c, leaf_d, leaf_e};
enum { LEAVES = 5, ZEROED = 2 };

/* To ask for the frame's address makes the compiler keep a frame pointer. */
#define FRAME(name, frame, room)                                                                                       \
    CALL name(struct job *j)                                                                                           \
    {                                                                                                                  \
        room;                                                                                                          \
        KEEP(place);                                                                                                   \
        KEEP(frame);                                                                                                   \
        goes[j->path->frames[j->at - 1] / CALLS](j); /* inlined functions are frames too, so this is none */           \
        KEEP(place);                                                                                                   \
    }
FRAME(call_a, 0, volatile char place[16])
FRAME(call_b, 0, volatile char place[80])
FRAME(call_c, __builtin_frame_address(0), volatile char place[24])
FRAME(call_d, __builtin_frame_address(0), volatile char place[120])
FRAME(call_e, 0, char *place = alloca(16 + j->path->slack))
FRAME(call_f, 0, _Alignas(64) volatile char place[64])
FRAME(call_g, 0, volatile char place[16])
static void (*const calls[])(struct job *) = {call_a, call_b, call_c, call_d, call_e, call_f, call_g};

/* Two functions whose frames have the same size, so often one word alone tells two stacks apart. */
#define GO(name)                                                                                                       \
    CALL name(struct job *j)                                                                                           \
    {                                                                                                                  \
        if (j->at == j->path->depth)                                                                                   \
            leaves[j->path->leaf](j);                                                                                  \
        else                                                                                                           \
            calls[j->path->frames[j->at++] % CALLS](j);                                                                \
        KEEP(j);                                                                                                       \
    }
GO(go_a)
GO(go_b)
CALL begin(struct job *j)
{
    go_a(j);
    KEEP(j);
}

/* ---- Operations ---- */

/* Eight paths in a row differ in one frame each, which has the same size, so in one word of the stack. */
static void make_like(struct path *p, const struct path *first, unsigned k)
{
    *p = *first;
    p->frames[k] = (uint8_t)(first->frames[k] ? (first->frames[k] + CALLS) % FRAMES : CALLS - 1);
}

/* Paths in a row differ in the order of their innermost frames, which have different sizes. So each has its words at other places of the
 * stack, but for its first and its last one. */
enum { INNERMOST = 5, ORDERS = 120 };
static void make_near(struct path *p, const struct path *first, unsigned order)
{
    static const uint8_t frames[INNERMOST] = {0, 1, 2, 3, 4};
    uint8_t left[INNERMOST];
    *p = *first;
    memcpy(left, frames, sizeof left);
    for (unsigned n = INNERMOST; n; order /= n, n--) {
        p->frames[p->depth - n] = left[order % n];
        left[order % n] = left[n - 1];
    }
}

static void make_paths(void)
{
    const unsigned long alike = is_near ? ORDERS : 8;
    paths = calloc(n_paths, sizeof *paths);
    for (unsigned long i = 0; i < n_paths; i++) {
        struct path *p = &paths[i];
        unsigned long left = i / alike; /* the first frames make the path differ from all others */
        *p = (struct path){.depth = (uint8_t)(12 + draw(DEPTH_MOST - 11)), .leaf = (uint8_t)draw(LEAVES), .size = 32 + draw(3000),
                           .slack = 16 * draw(5)};
        for (unsigned k = 0; k < p->depth; k++, left /= FRAMES)
            p->frames[k] = (uint8_t)(k < 4 ? left % FRAMES : draw(2) ? draw(FRAMES) : 0);
        if (is_near)
            make_near(p, &paths[i - i % alike], (unsigned)(i % alike));
        else if (i % 8)
            make_like(p, &paths[i - i % 8], 3 + (unsigned)(i % 8));
    }
}

static void release(void *p, struct path *path)
{
    if (!p)
        return;
    path->freed++;
    memset(p, 0xff, malloc_usable_size(p));
    free(p);
}

static void *allocate(struct path *path)
{
    struct job job = {.path = path};
    begin(&job);
    path->objects++;
    const char *bytes = job.result;
    for (size_t i = 0; path->leaf == ZEROED && i < malloc_usable_size(job.result); i++)
        if (bytes[i])
            abort();
    return job.result;
}

static struct path *next(const struct path *path)
{
    if (is_near && draw(16))
        return &paths[(unsigned long)(path - paths) / ORDERS * ORDERS + draw(ORDERS)];
    return &paths[draw(draw(4) ? n_paths / 16 + 1 : n_paths)];
}

/* Often the same path again, and often one of a few. */
static void *work(void *arg)
{
    static struct {
        void *p;
        struct path *path;
    } slots[SLOTS];
    struct path *path = paths;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        if (draw(8) >= 5)
            path = next(path);
        void *p = allocate(path);
        if (draw(4)) {
            release(p, path);
            continue;
        }
        unsigned long at = draw(SLOTS);
        release(slots[at].p, slots[at].path);
        slots[at].p = p;
        slots[at].path = path;
    }
    return arg;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    n_paths = strtoul(argv[1], NULL, 10);
    state = strtoul(argv[2], NULL, 10);
    is_near = argc > 3;
    make_paths();
    pthread_t thread;
    work(NULL);
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    for (unsigned long i = 0; i < n_paths; i++) {
        printf("begin;go_a");
        for (unsigned k = 0; k < paths[i].depth; k++)
            printf(";call_%c;go_%c", 'a' + paths[i].frames[k] % CALLS, 'a' + paths[i].frames[k] / CALLS);
        printf(";leaf_%c %lu %lu\n", 'a' + paths[i].leaf, paths[i].objects, paths[i].objects - paths[i].freed);
    }
    printf("end\n");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
