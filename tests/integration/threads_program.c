/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that allocate and free at random, also each other's objects, and what they did by their own count.
 *
 * threads_program N SEED [live]: N threads one after the other, or with "live" N at the same time that do not end. Then eight at the
 * same time, of which four end. Prints a line for each thread: its number, whether it is alive, and bytes that it allocated, that it
 * freed, that others freed for it, and in use. Before that it compares these with what mallctl says of the last threads.
 */
#define _GNU_SOURCE
#include <jespan/jespan.h>
#include <jespan/mallctl.h>

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 500
#define AT_ONCE 8
#define STEPS 3000

struct did {
    long id;
    size_t allocated, freed, by_others, in_use;
    unsigned number, seed;
};

static struct slot {
    void *p;
    size_t bytes;
    struct did *owner;
} slots[SLOTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t done, all_began;
static struct did all[20000];
static bool they_live;

static void put(struct did *me, struct slot *slot)
{
    size_t bytes = 1 + (size_t)rand_r(&me->seed) % 3000;
    slot->p = malloc(bytes);
    slot->bytes = malloc_usable_size(slot->p);
    slot->owner = me;
    me->allocated += slot->bytes;
    me->in_use += slot->bytes;
}

static void take(struct did *me, struct slot *slot)
{
    free(slot->p);
    slot->p = NULL;
    me->freed += slot->bytes;
    slot->owner->in_use -= slot->bytes;
    if (slot->owner != me)
        slot->owner->by_others += slot->bytes;
}

static void step(struct did *me)
{
    pthread_mutex_lock(&mutex);
    struct slot *slot = &slots[rand_r(&me->seed) % SLOTS];
    if (slot->p)
        take(me, slot);
    else
        put(me, slot);
    pthread_mutex_unlock(&mutex);
}

/* Some objects belong to the thread's name, others to a span that threads share. */
static void work(struct did *me, int steps)
{
    me->id = syscall(SYS_gettid);
    for (int i = 0; i < steps; i++) {
        if (rand_r(&me->seed) % 2) {
            JESPAN("work");
            step(me);
        } else {
            step(me);
        }
    }
}

static void *one_of_many(void *did)
{
    char name[16];
    struct did *me = did;
    snprintf(name, sizeof name, "one-%u", me->number % 400);
    pthread_setname_np(pthread_self(), name);
    work(me, 20);
    if (they_live) {
        JESPAN("wait");
        pthread_barrier_wait(&all_began);
        pause();
    }
    return NULL;
}

static void *one_of_eight(void *did)
{
    struct did *me = did;
    pthread_setname_np(pthread_self(), "same");
    work(me, STEPS);
    if (me->number % 2) {
        JESPAN("wait");
        pthread_barrier_wait(&done);
        pause();
    } else {
        pthread_barrier_wait(&done);
    }
    return NULL;
}

static void run_many(unsigned n)
{
    pthread_attr_t attributes;
    pthread_t one;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_barrier_init(&all_began, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        int error = pthread_create(&one, &attributes, one_of_many, &all[i]);
        if (error) {
            fprintf(stderr, "thread %u: %s\n", i, strerror(error));
            exit(1);
        }
        if (!they_live)
            pthread_join(one, NULL);
    }
    if (they_live)
        pthread_barrier_wait(&all_began);
}

/* ---- The same by mallctl ---- */

static uint64_t ask(const struct did *did, const char *figure)
{
    char name[80];
    uint64_t value = 0;
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "spans.threads.%ld.%s", did->id, figure);
    int error = mallctl(name, &value, &bytes, NULL, 0);
    if (error)
        fprintf(stderr, "%s: %s\n", name, strerror(error));
    return error ? UINT64_MAX : value;
}

static bool is_within(const struct did *did, const char *least, size_t value, const char *most)
{
    return ask(did, least) <= value && value <= ask(did, most);
}

static void check(const struct did *did, const char *begin, bool is_live)
{
    char name[80];
    const char *text = "";
    size_t bytes = sizeof text;
    snprintf(name, sizeof name, "spans.threads.%ld.name", did->id);
    if (mallctl(name, &text, &bytes, NULL, 0) || strncmp(text, begin, strlen(begin))
        || ask(did, "live") != is_live || ask(did, "threads") != 1 || ask(did, "alloc_bytes") != did->allocated
        || ask(did, "free_bytes") != did->freed || !is_within(did, "inuse_least_bytes", did->in_use, "inuse_most_bytes")
        || !is_within(did, "freed_by_others_least_bytes", did->by_others, "freed_by_others_most_bytes")) {
        fprintf(stderr, "mallctl differs from what thread %ld says: %s, live %d, %lu %lu\n", did->id, text, (int)ask(did, "live"),
                (unsigned long)ask(did, "alloc_bytes"), (unsigned long)ask(did, "free_bytes"));
        exit(1);
    }
}

static void check_all(unsigned n)
{
    static uint32_t ids[sizeof all / sizeof all[0] + 1];
    uint64_t count = 0;
    size_t bytes = sizeof count, ids_bytes = sizeof ids;
    for (unsigned i = n > 10 ? n - 10 : 0; i < n; i++) /* each takes time with the number of threads */
        check(&all[i], "one-", they_live);
    for (unsigned i = n; i < n + AT_ONCE; i++)
        check(&all[i], "same", all[i].number % 2);
    if (mallctl("spans.threads.count", &count, &bytes, NULL, 0) || mallctl("spans.threads.ids", ids, &ids_bytes, NULL, 0)
        || count < n + AT_ONCE + 1 || ids_bytes != count * sizeof ids[0]) {
        fprintf(stderr, "%lu threads in %zu bytes, of %u\n", (unsigned long)count, ids_bytes, n + AT_ONCE + 1);
        exit(1);
    }
    for (unsigned i = 0; i < n + AT_ONCE; i++) {
        size_t k = 0;
        while (k < count && ids[k] != (uint32_t)all[i].id)
            k++;
        if (k == count) {
            fprintf(stderr, "thread %ld is not in spans.threads.ids\n", all[i].id);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 100, seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    pthread_t threads[AT_ONCE];
    they_live = argc > 3;
    for (unsigned i = 0; i < n + AT_ONCE; i++)
        all[i] = (struct did){.number = i, .seed = seed * 100003 + i};
    run_many(n);
    pthread_barrier_init(&done, NULL, AT_ONCE + 1);
    for (unsigned i = 0; i < AT_ONCE; i++)
        pthread_create(&threads[i], NULL, one_of_eight, &all[n + i]);
    pthread_barrier_wait(&done);
    for (unsigned i = 0; i < AT_ONCE; i++)
        if (!(all[n + i].number % 2))
            pthread_join(threads[i], NULL);
    check_all(n);
    for (unsigned i = 0; i < n + AT_ONCE; i++)
        printf("%ld %s %d %zu %zu %zu %zu\n", all[i].id, i < n ? "one" : "same", i < n ? they_live : all[i].number % 2, all[i].allocated,
               all[i].freed, all[i].by_others, all[i].in_use);
    puts("ready");
    fflush(stdout);
    pause();
}
