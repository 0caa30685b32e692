/* SPDX-License-Identifier: BSD-2-Clause */
/* Keeps the functions of calls, and has a thread ask for those that are missing.
 *
 * A call is asked for once: if nothing is found, it has no functions for good. If the process that answers is killed, the binaries that
 * it left out are asked for once more, each one alone, so that one of them costs no names of others. When the memory is full, calls
 * that the present request does not have are forgotten, and binaries without calls too. If all of it is theirs, the others stay
 * without names. */
#include "sidecar/call_names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

#define MOST_CALLS 40000u               /* twice as many as an answer of /stacks has */
#define MOST_TEXT_BYTES ((size_t)16 << 20)
#define MOST_BINARIES 4096u
#define BUCKETS 16384u                  /* a power of two */
#define STACK_BYTES ((size_t)256 * 1024)

struct binary {
    uint64_t identity;
    bool is_used; /* by a call that stays: only while others are forgotten */
    char build_id[CALL_NAMES_BUILD_ID_BYTES];
    char path[];
};

struct call {
    struct call *next; /* in its bucket */
    struct binary *binary;
    uint64_t offset;
    uint32_t request;     /* the last one that had it */
    uint32_t n_functions;
    bool is_asked;        /* the thread uses it */
    bool has_answer;
    struct service_function *functions; /* with their texts behind them; NULL: none */
    size_t bytes;
};

/* All of it is under the mutex. Functions of a call are written once, so readers may use them without it. */
static struct {
    struct call *buckets[BUCKETS];
    struct binary **binaries;
    size_t n_binaries, binaries_room;
    struct call **wanted; /* to be asked for */
    size_t n_wanted, wanted_room;
    uint32_t n_calls, request;
    uint32_t n_readers; /* threads that use names */
    size_t bytes;
    bool has_thread;
} names;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_wanted = PTHREAD_COND_INITIALIZER;

/* ---- The thread ---- */

struct batch {
    struct call **calls; /* sorted */
    size_t n;
    struct call_names_call *questions; /* about them */
};

static int compare(const void *a, const void *b)
{
    const struct call *x = *(struct call *const *)a, *y = *(struct call *const *)b;
    if (x->binary != y->binary)
        return x->binary < y->binary ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Copies functions with their texts. NULL: no memory, or no room for them. */
static struct service_function *copy(const struct service_function *from, uint32_t n, size_t *bytes)
{
    *bytes = n * sizeof *from;
    for (uint32_t i = 0; i < n; i++)
        *bytes += strlen(from[i].name) + strlen(from[i].file) + 2;
    struct service_function *made = names.bytes + *bytes <= MOST_TEXT_BYTES ? malloc(*bytes) : NULL;
    char *text = (char *)(made + n);
    for (uint32_t i = 0; i < n && made; i++) {
        made[i] = (struct service_function){text, text + strlen(from[i].name) + 1, from[i].line, from[i].role};
        text = stpcpy(stpcpy(text, from[i].name) + 1, from[i].file) + 1;
    }
    return made;
}

static void take(void *data, uint32_t i, const struct service_function *functions, uint32_t n)
{
    struct call *call = ((struct batch *)data)->calls[i];
    size_t bytes;
    pthread_mutex_lock(&mutex);
    if (!call->functions && n > 0 && (call->functions = copy(functions, n, &bytes))) {
        call->n_functions = n;
        call->bytes = bytes;
        names.bytes += bytes;
    }
    call->has_answer = true;
    pthread_mutex_unlock(&mutex);
}

static bool ask_some(const struct batch *all, size_t first, size_t n)
{
    struct batch some = {all->calls + first, n, all->questions + first};
    return call_names_ask(some.questions, (uint32_t)n, take, &some);
}

/* Asks for those binaries that have calls without an answer. Only this thread writes has_answer. */
static void ask_again(const struct batch *b)
{
    for (size_t i = 0, end; i < b->n; i = end) {
        bool is_left_out = false;
        for (end = i; end < b->n && b->calls[end]->binary == b->calls[i]->binary; end++)
            is_left_out |= !b->calls[end]->has_answer;
        if (is_left_out)
            ask_some(b, i, end - i);
    }
}

static void ask(struct batch *b)
{
    qsort(b->calls, b->n, sizeof *b->calls, compare);
    b->questions = calloc(b->n, sizeof *b->questions);
    for (size_t i = 0; i < b->n && b->questions; i++) {
        const struct call *call = b->calls[i];
        b->questions[i] = (struct call_names_call){call->binary->path, call->binary->build_id, call->offset};
    }
    if (b->questions && !ask_some(b, 0, b->n))
        ask_again(b);
    free(b->questions);
}

static void *run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "names");
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (names.n_wanted == 0)
            pthread_cond_wait(&is_wanted, &mutex);
        struct batch b = {.calls = names.wanted, .n = names.n_wanted};
        names.wanted = NULL;
        names.n_wanted = names.wanted_room = 0;
        pthread_mutex_unlock(&mutex);
        ask(&b);
        pthread_mutex_lock(&mutex);
        for (size_t i = 0; i < b.n; i++)
            b.calls[i]->is_asked = false;
        free(b.calls);
    }
    return NULL;
}

/* The thread of the service has all signals blocked, and so has this one. Returns whether there is one. */
static bool start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (names.has_thread)
        return true;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    names.has_thread = pthread_create(&thread, &attributes, run, NULL) == 0;
    pthread_attr_destroy(&attributes);
    return names.has_thread;
}

/* ---- The calls ---- */

/* NULL: it is not known. */
static struct binary *find_binary(const struct service_call *call)
{
    for (size_t i = 0; i < names.n_binaries; i++)
        if (names.binaries[i]->identity == call->identity && strcmp(names.binaries[i]->path, call->path) == 0)
            return names.binaries[i];
    return NULL;
}

/* NULL: there are too many, or there is no memory. */
static struct binary *add_binary(const struct service_call *call)
{
    if (names.n_binaries == MOST_BINARIES
        || array_reserve(&names.binaries, &names.binaries_room, names.n_binaries + 1, sizeof *names.binaries))
        return NULL;
    struct binary *made = malloc(sizeof *made + strlen(call->path) + 1);
    if (!made)
        return NULL;
    *made = (struct binary){.identity = call->identity};
    snprintf(made->build_id, sizeof made->build_id, "%s", call->build_id);
    strcpy(made->path, call->path);
    return names.binaries[names.n_binaries++] = made;
}

static struct call **bucket_of(const struct binary *binary, uint64_t offset)
{
    const uint64_t key[] = {(uintptr_t)binary, offset};
    return &names.buckets[hash_fold(hash_bytes(HASH_START, key, sizeof key)) % BUCKETS];
}

static struct call *find_call(const struct service_call *call)
{
    const struct binary *binary = find_binary(call);
    struct call *found = binary ? *bucket_of(binary, call->offset) : NULL;
    while (found && (found->binary != binary || found->offset != call->offset))
        found = found->next;
    return found;
}

static void forget_unused_binaries(void)
{
    size_t n = 0;
    for (size_t i = 0; i < names.n_binaries; i++) {
        if (names.binaries[i]->is_used)
            names.binaries[n++] = names.binaries[i];
        else
            free(names.binaries[i]);
    }
    names.n_binaries = n;
}

/* Forgets all calls that this request does not have. */
static void forget_others(void)
{
    for (size_t i = 0; i < names.n_binaries; i++)
        names.binaries[i]->is_used = false;
    for (struct call **bucket = names.buckets; bucket < names.buckets + BUCKETS; bucket++)
        for (struct call **at = bucket, *call; (call = *at);) {
            if (call->request == names.request || call->is_asked) {
                call->binary->is_used = true;
                at = &call->next;
                continue;
            }
            *at = call->next;
            names.bytes -= call->bytes;
            names.n_calls--;
            free(call->functions);
            free(call);
        }
    forget_unused_binaries();
}

static bool is_full(void)
{
    return names.n_calls == MOST_CALLS || names.n_binaries == MOST_BINARIES || names.bytes > MOST_TEXT_BYTES / 2;
}

/* Has it asked for. NULL: there is no room, or no memory. */
static struct call *add_call(const struct service_call *call)
{
    struct binary *binary = find_binary(call);
    if (names.n_calls == MOST_CALLS || (!binary && !(binary = add_binary(call)))
        || array_reserve(&names.wanted, &names.wanted_room, names.n_wanted + 1, sizeof *names.wanted))
        return NULL;
    struct call *made = malloc(sizeof *made), **bucket = bucket_of(binary, call->offset);
    if (!made)
        return NULL;
    *made = (struct call){.next = *bucket, .binary = binary, .offset = call->offset, .is_asked = true};
    names.n_calls++;
    return names.wanted[names.n_wanted++] = *bucket = made;
}

/* Marks the calls that are known. */
static void mark_known(const struct service_call *calls, size_t n)
{
    names.request++;
    for (size_t i = 0; i < n; i++) {
        struct call *known = calls[i].path ? find_call(&calls[i]) : NULL;
        if (known)
            known->request = names.request;
    }
}

size_t call_names_find(struct service_call *calls, size_t n)
{
    size_t n_asked = 0;
    bool has_forgotten = false;
    pthread_mutex_lock(&mutex);
    mark_known(calls, n);
    for (size_t i = 0; i < n; i++) {
        calls[i].functions = NULL;
        calls[i].n_functions = 0;
        struct call *call = calls[i].path ? find_call(&calls[i]) : NULL;
        if (!call && calls[i].path) {
            if (!has_forgotten && names.n_readers == 0 && is_full()) {
                forget_others();
                has_forgotten = true;
            }
            if ((call = add_call(&calls[i])))
                call->request = names.request;
        }
        if (!call)
            continue;
        n_asked += call->is_asked && !call->has_answer;
        calls[i].functions = call->functions;
        calls[i].n_functions = call->n_functions;
    }
    if (names.n_wanted > 0 && start_thread())
        pthread_cond_signal(&is_wanted);
    n_asked = names.has_thread ? n_asked : 0;
    names.n_readers++;
    pthread_mutex_unlock(&mutex);
    return n_asked;
}

void call_names_end(void)
{
    pthread_mutex_lock(&mutex);
    names.n_readers--;
    pthread_mutex_unlock(&mutex);
}
