/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that have allocated for long and are renamed then: by prctl(), by pthread_setname_np(), by another thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define OBJECTS 1000
#define MANY 100000

static void *kept[OBJECTS];
static pthread_barrier_t barrier, at_end;

static void work(void)
{
    for (size_t i = 0; i < 100000; i++)
        free(opaque_pointer(malloc(opaque(100 + i % 3000))));
}

/* What the thread allocates now belongs to its new name. */
static void belongs_to(const char *name)
{
    char expected[32] = "thread:";
    strcat(expected, name);
    for (size_t i = 0; i < OBJECTS; i++)
        kept[i] = malloc(opaque(1000));
    ctl_refresh();
    jespan_context_t id = jespan_current();
    if (strcmp(ctl_span_text(id, "name"), expected) != 0)
        check_fail("the context is %s, not %s", ctl_span_text(id, "name"), expected);
    uint64_t n = ctl_span(id, "inuse_objects");
    CHECK(n == OBJECTS || n == OBJECTS + 1); /* with the object at whose allocation it heard of the name */
    for (size_t i = 0; i < OBJECTS; i++)
        free(kept[i]);
}

static void *run(void *unused)
{
    work();
    CHECK_EQ(prctl(PR_SET_NAME, "by-prctl"), 0);
    belongs_to("by-prctl");
    work();
    CHECK_EQ(pthread_setname_np(pthread_self(), "by-pthread"), 0);
    {
        JESPAN("block"); /* does not allocate */
    }
    belongs_to("by-pthread");
    work();
    jespan_context_t before = jespan_current();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* the other one renames this thread */
    for (size_t i = 0; jespan_current() == before && i < MANY; i++) /* it hears of it when it needs new memory */
        CHECK(opaque_pointer(malloc(opaque(1000))) != NULL);
    belongs_to("by-another");
    return unused;
}

/* What others rename uses up no names of a thread. */
static void *renamed_after_others(void *unused)
{
    work();
    for (int i = 0; i < 40; i++) {
        pthread_barrier_wait(&barrier); /* main renames itself, or another */
        pthread_barrier_wait(&barrier);
        for (size_t k = 0; k < OBJECTS; k++)
            kept[k] = malloc(opaque(1000));
        for (size_t k = 0; k < OBJECTS; k++)
            free(kept[k]);
    }
    CHECK_EQ(prctl(PR_SET_NAME, "mine-at-last"), 0);
    belongs_to("mine-at-last");
    return unused;
}

static void *waits(void *unused)
{
    pthread_barrier_wait(&at_end);
    return unused;
}

static void rename_others(void)
{
    pthread_t thread, other;
    char name[16];
    CHECK_EQ(pthread_barrier_init(&at_end, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, renamed_after_others, NULL), 0);
    CHECK_EQ(pthread_create(&other, NULL, waits, NULL), 0);
    for (int i = 0; i < 40; i++) {
        pthread_barrier_wait(&barrier);
        snprintf(name, sizeof name, "other-%d", i);
        CHECK_EQ(pthread_setname_np(other, name), 0);
        pthread_barrier_wait(&barrier);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_barrier_wait(&at_end);
    CHECK_EQ(pthread_join(other, NULL), 0);
}

/* As a program that names its threads after requests: there are not as many contexts. */
static void *many_names(void *unused)
{
    char name[16];
    uint64_t before = ctl_u64("spans.count");
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "request-%d", i);
        CHECK_EQ(prctl(PR_SET_NAME, name), 0);
        free(opaque_pointer(malloc(opaque(100))));
    }
    ctl_refresh();
    CHECK(ctl_u64("spans.count") - before < 20);
    return unused;
}

/* The functions do what those of libc do. */
static void are_as_of_libc(void)
{
    char name[16];
    CHECK_EQ(pthread_setname_np(pthread_self(), "more than fifteen letters"), ERANGE);
    errno = 0;
    CHECK_EQ(prctl(-1, 0, 0, 0, 0), -1);
    CHECK_EQ(errno, EINVAL);
    CHECK_EQ(prctl(PR_SET_NAME, "first"), 0);
    CHECK_EQ(prctl(PR_GET_NAME, name), 0);
    CHECK(strcmp(name, "first") == 0);
    CHECK_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_GET_DUMPABLE), 1);
}

int main(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, run, NULL), 0);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_setname_np(thread, "by-another"), 0);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, many_names, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    rename_others();
    are_as_of_libc();
    return check_result();
}
