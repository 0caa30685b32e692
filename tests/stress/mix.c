/* SPDX-License-Identifier: BSD-2-Clause */
/* A random mix of everything: spans, blocks, labels (also added later), blocks for other owners, attachments, credit to
 * other contexts, limits, far more contexts than max_contexts, plugins that come and go, forks, threads that end,
 * snapshots. At quiet points the sums equal jemalloc's figures, each context has exactly the objects that are credited
 * to it, and all contexts together make up the sums. MIX_SECONDS: duration for each configuration (2). MIX_SEED: the
 * random seed, printed with a failure. MIX_CONF: another configuration in place of those here. Builds with
 * --enable-sanitizer find memory errors and races. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>

#include "../support/ctl.h"
#include "../support/many_locks.h"
#include "../support/objects.h"

#define THREADS 4
#define SLOTS 400
#define HANDLES 12
#define SHARED 6
#define DEPTH 6
#define STEPS_A_ROUND 500
#define IDS 65536

struct held {
    char *p;
    jespan_context_t owner;
};

struct worker {
    pthread_t thread;
    struct random random;
    struct held slots[SLOTS];
    jespan_span_t *handles[HANDLES];
    unsigned entered[HANDLES]; /* by this thread */
    jespan_context_t seen[64]; /* context numbers, live or recycled */
    jespan_context_t limited;
    unsigned depth;
};

static struct worker workers[THREADS];
static jespan_span_t *shared[SHARED];
static pthread_barrier_t quiet, go;
static _Atomic bool over;
static _Atomic unsigned forks, plugged, refused, unattached;
static bool is_child; /* a child loads nothing: the loader may be locked. Under ThreadSanitizer it starts no thread */
static uint64_t seed;

static size_t below(struct worker *w, size_t n)
{
    return random_below(&w->random, n);
}

static jespan_context_t note_current(struct worker *w)
{
    jespan_context_t id = jespan_current();
    w->seen[below(w, 64)] = id;
    return id;
}

static jespan_context_t some_context(struct worker *w)
{
    return w->seen[below(w, 64)];
}

/* ---- Memory ---- */

/* The object may be NULL under a limit. */
static void make_object(struct worker *w, struct held *o)
{
    size_t n = random_size(&w->random) % 20000;
    size_t way = below(w, 8);
    o->p = way == 0 ? F(calloc)(1, n) : way == 1 ? F(aligned_alloc)(64, n) : F(malloc)(n);
    o->owner = jespan_current();
    if (o->p && n)
        o->p[0] = o->p[n - 1] = 'x';
    refused += !o->p;
}

static void resize_object(struct worker *w, struct held *o)
{
    char *p = F(realloc)(o->p, random_size(&w->random) % 20000 + 1);
    if (!p)
        return;
    /* An object that was resized in place stays in its context if a limit here does not admit it. Then jespan_credit()
     * fails too. */
    if (p != o->p || jespan_credit(p, jespan_current()) == 0)
        o->owner = jespan_current();
    o->p = p;
}

static void credit_object(struct worker *w, struct held *o)
{
    jespan_context_t to = below(w, 2) ? jespan_current() : JESPAN_ROOT;
    if (jespan_credit(o->p, to) == 0)
        o->owner = to;
}

static void heap_step(struct worker *w)
{
    struct held *o = &w->slots[below(w, SLOTS)];
    size_t what = below(w, 8);
    if (!o->p) {
        make_object(w, o);
    } else if (what == 0) {
        credit_object(w, o);
    } else if (what < 3) {
        resize_object(w, o);
    } else {
        F(free)(o->p);
        o->p = NULL;
    }
}

/* ---- Spans ---- */

static const struct jespan_site sites[] = {
    {"accept", "net", "net.c", 10, {0}}, {"parse", "net", "net.c", 20, {0}}, {"query", NULL, NULL, 0, {0}},
    {"accept", "net", "net.c", 11, {0}}};

static struct jespan_label random_label(struct worker *w, char text[24])
{
    snprintf(text, 24, "%u", (unsigned)below(w, 3000));
    return below(w, 4) ? (struct jespan_label)JESPAN_LABEL("number", text)
                       : (struct jespan_label)JESPAN_LABEL_INT("shard", below(w, 5));
}

static jespan_span_t *open_random(struct worker *w)
{
    char text[24];
    const struct jespan_label label = random_label(w, text);
    jespan_context_t parent = below(w, 3) ? JESPAN_CURRENT : below(w, 2) ? JESPAN_ROOT : some_context(w);
    return jespan_open(&sites[below(w, 4)], parent, &label, below(w, 8) > 0);
}

static void handle_step(struct worker *w)
{
    size_t i = below(w, HANDLES), what = below(w, 6);
    jespan_span_t **span = &w->handles[i];
    if (!*span) {
        *span = open_random(w);
    } else if (what < 2 && w->entered[i] < 3) {
        w->entered[i] += jespan_enter(*span) == 0;
        note_current(w);
    } else if (what < 4 && w->entered[i]) {
        CHECK_EQ(jespan_exit(*span), 0);
        w->entered[i]--;
    } else if (what == 4) {
        char text[24];
        const struct jespan_label label = random_label(w, text);
        jespan_add_label(below(w, 2) ? *span : NULL, &label);
        note_current(w);
    } else if (!w->entered[i]) {
        CHECK_EQ(jespan_close(*span), 0);
        *span = NULL;
    }
}

static void shared_step(struct worker *w)
{
    jespan_span_t *span = shared[below(w, SHARED)];
    char text[24];
    CHECK_EQ(jespan_enter(span), 0);
    heap_step(w);
    if (below(w, 4) == 0) {
        const struct jespan_label label = random_label(w, text);
        jespan_add_label(span, &label);
    }
    note_current(w);
    CHECK_EQ(jespan_exit(span), 0);
}

static void steps(struct worker *w, size_t n);

static void block_step(struct worker *w)
{
    char text[24];
    const struct jespan_label label = random_label(w, text);
    if (w->depth >= DEPTH)
        return;
    w->depth++;
    switch (below(w, 4)) {
    case 0: {
        JESPAN("plain");
        note_current(w);
        steps(w, below(w, 12));
        break;
    }
    case 1: {
        JESPAN_WITH("labelled", label);
        note_current(w);
        steps(w, below(w, 12));
        break;
    }
    case 2: {
        JESPAN_CREDIT(some_context(w));
        steps(w, below(w, 12));
        break;
    }
    default: {
        JESPAN("forgets"); /* it leaves its attachment */
        unattached += jespan_attach(some_context(w)) == JESPAN_INVALID;
        steps(w, below(w, 4));
    }
    }
    w->depth--;
}

static void attach_step(struct worker *w)
{
    jespan_context_t previous = jespan_attach(some_context(w));
    if (previous == JESPAN_INVALID)
        return;
    heap_step(w);
    {
        JESPAN("task");
        heap_step(w);
    }
    jespan_attach(previous);
}

static void limit_step(struct worker *w)
{
    if (w->limited)
        CHECK_EQ(jespan_set_limit(w->limited, 0, 0), 0);
    w->limited = note_current(w);
    if (jespan_set_limit(w->limited, 0, below(w, 4) ? (uint64_t)1 << 40 : 100000))
        w->limited = 0;
}

/* ---- The rest of the world ---- */

static void snapshot_step(struct worker *w)
{
    static const char *const leaves[] = {"inuse_bytes", "wall_ns", "open", "name", "labels", "total.cpu_ns"};
    uint64_t any = 1;
    char name[64], value[64];
    size_t bytes = sizeof value;
    CHECK_EQ(F(mallctl)("spans.epoch", NULL, NULL, &any, sizeof any), 0);
    const char *leaf = leaves[below(w, 6)];
    bytes = strcmp(leaf, "labels") ? 8 : bytes;
    int error = F(mallctl)(ctl_span_name(name, sizeof name, some_context(w), leaf), value, &bytes, NULL, 0);
    CHECK(error == 0 || error == ENOENT);
}

/* Loads and unloads plugins, so that code and data lie where other code and data lay before. */
static void plugin_step(struct worker *w)
{
    const char *top = getenv("top_builddir");
    char path[4096];
    const char *target = below(w, 2) ? "mix_one" : "mix_two";
    snprintf(path, sizeof path, "%s/tests/support/.libs/%s.so", top ? top : ".", target);
    void *plugin = top ? dlopen(path, RTLD_NOW) : NULL;
    if (!plugin)
        return;
    const struct jespan_site *(*find)(unsigned);
    *(void **)&find = dlsym(plugin, "mix_site");
    const struct jespan_site *site = find((unsigned)below(w, 4));
    const char *const words[] = {site->name};
    for (unsigned i = 0; i < 3; i++) {
        struct jespan_block scope;
        jespan_context_t outside = jespan_current();
        jespan_enter_block(&scope, site, words, 1);
        jespan_context_t id = note_current(w);
        heap_step(w);
        if (id != outside && !strcmp(ctl_span_text(id, "name"), "plugged")) { /* else all numbers were taken */
            CHECK(!strcmp(ctl_span_text(id, "target"), target));
            CHECK_EQ(ctl_span(id, "line"), site->line);
        }
        jespan_exit_block(&scope);
    }
    dlclose(plugin);
    plugged++;
}

static void *guest(void *argument)
{
    struct worker *w = argument;
    char name[16];
    snprintf(name, sizeof name, "guest %u", (unsigned)below(w, 40));
    pthread_setname_np(pthread_self(), name);
    heap_step(w);
    note_current(w);
    {
        JESPAN("task");
        heap_step(w);
    }
    return NULL;
}

/* A thread uses the worker's objects and spans while the worker waits. */
static void guest_step(struct worker *w)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, guest, w);
    CHECK(error == 0 || error == EAGAIN); /* pthread_create() allocates under the limit too */
    if (!error)
        CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void fork_step(struct worker *w)
{
    pid_t pid = fork();
    if (pid == 0) {
        is_child = true;
        alarm(600);
        for (unsigned i = 0; i < 200; i++) {
            heap_step(w);
            handle_step(w);
            block_step(w);
        }
        snapshot_step(w);
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    forks++;
}

/* ---- All of it ---- */

static void steps(struct worker *w, size_t n)
{
    while (n-- > 0) {
        size_t draw = below(w, 1000);
        if (draw < 550)
            heap_step(w);
        else if (draw < 750)
            handle_step(w);
        else if (draw < 850)
            block_step(w);
        else if (draw < 900)
            shared_step(w);
        else if (draw < 960)
            attach_step(w);
        else if (draw < 975)
            limit_step(w);
        else if (draw < 990)
            snapshot_step(w);
        else if (is_child)
            continue;
        else if (draw < 995)
            plugin_step(w);
        else if (draw < 999)
            guest_step(w);
        else if (below(w, 8) == 0)
            fork_step(w);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    while (!over) {
        steps(w, STEPS_A_ROUND);
        pthread_barrier_wait(&quiet);
        pthread_barrier_wait(&go);
    }
    return NULL;
}

/* Compares the objects of the program, by their owner, with the figures of contexts. */
static void check_contexts(void)
{
    static uint32_t objects[IDS], ids[IDS];
    static uint64_t bytes[IDS];
    size_t length = sizeof ids;
    uint64_t live = 0, in_rows = 0, unlisted = 0;
    memset(objects, 0, sizeof objects);
    memset(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < SLOTS; k++) {
            const struct held *o = &workers[i].slots[k];
            if (!o->p || o->owner >= IDS)
                continue;
            objects[o->owner]++;
            bytes[o->owner] += F(malloc_usable_size)(o->p);
            unlisted++;
        }
    ctl_refresh();
    CHECK_EQ(F(mallctl)("spans.ids", ids, &length, NULL, 0), 0);
    for (size_t i = 0; i < length / sizeof *ids; i++) {
        uint32_t id = ids[i];
        uint64_t has = ctl_span(id, "inuse_objects"), has_bytes = ctl_span(id, "inuse_bytes");
        live += has_bytes;
        unlisted -= objects[id];
        in_rows += ctl_span(id, "alloc_bytes");
        if (FAMILY_INTERPOSED && has >= objects[id] && has_bytes >= bytes[id])
            continue; /* libc and the loader allocate there too */
        if (!strncmp(ctl_span_text(id, "name"), "thread:", 7) && has >= objects[id])
            continue;
        if (has != objects[id] || has_bytes != bytes[id])
            check_fail("context %u (%s) has %llu objects, %llu bytes, not %u and %llu", id, ctl_span_text(id, "name"),
                       (unsigned long long)has, (unsigned long long)has_bytes, objects[id], (unsigned long long)bytes[id]);
    }
    CHECK_EQ(unlisted, 0); /* objects of contexts that spans.ids lacks */
    CHECK_EQ(ctl_u64("spans.all.inuse_bytes"), live);
    CHECK_EQ(ctl_u64("spans.all.alloc_bytes"), in_rows + ctl_u64("spans.retired.alloc_bytes"));
    ctl_check_identity("at a quiet point");
}

static int run(void)
{
    uint64_t seconds = check_env("MIX_SECONDS", 2), rounds = 0;
    struct timespec begin, now;
    seed = check_env("MIX_SEED", (uint64_t)time(NULL) + (uint64_t)getpid());
    for (unsigned i = 0; i < SHARED; i++)
        shared[i] = jespan_open(&sites[i % 4], JESPAN_ROOT, NULL, 0);
    pthread_barrier_init(&quiet, NULL, THREADS + 1);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].random.state = (seed + 1) * 7919 + i;
        for (unsigned k = 0; k < 64; k++)
            workers[i].seen[k] = JESPAN_ROOT;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    do {
        pthread_barrier_wait(&quiet);
        check_contexts();
        rounds++;
        clock_gettime(CLOCK_MONOTONIC, &now);
        over = (uint64_t)(now.tv_sec - begin.tv_sec) >= seconds || check_result();
        pthread_barrier_wait(&go);
    } while (!over);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    check_note("%s: %llu rounds, %u forks, %u plugins, %llu contexts recycled, %llu overflows, %u refusals; seed %llu",
               getenv("JESPAN_CONF"), (unsigned long long)rounds, forks, plugged,
               (unsigned long long)ctl_u64("spans.stats.recycled"), (unsigned long long)ctl_u64("spans.stats.overflow"), refused,
               (unsigned long long)seed);
    return check_result();
}

static void run_with(const char *conf)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("JESPAN_CONF", conf, 1);
        execl("/proc/self/exe", "mix", "run", NULL);
        _exit(127);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (status)
        check_fail("%s: status %#x", conf, status);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return run();
    if (getenv("MIX_CONF")) {
        run_with(getenv("MIX_CONF"));
        return check_result();
    }
    run_with("max_contexts:256,max_stacks:2048");
    run_with("max_contexts:2048,max_stacks:16384,inherit:true,age_period_s:1");
    return check_result();
}
