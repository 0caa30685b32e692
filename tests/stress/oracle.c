/* SPDX-License-Identifier: BSD-2-Clause */
/* The exactness oracle: 16 threads allocate, resize, hand over and free at random. Spans are nested and interleaved,
 * and come and go, as the threads do. At quiet points every figure of every context equals the model's, and the sums
 * equal jemalloc's figures. No error is allowed.
 *
 * ORACLE_OPS: operations of all threads (10,000,000). ORACLE_SEED: the random seed, printed with a failure. There are
 * two sorts of contexts. Shared ones have spans that are open from start to end, so any thread may use their paths
 * and each figure is known. Passing ones have a label that no other has; the model follows them until their last
 * object is freed.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "../support/model_check.h"
#include "../support/objects.h"

/* oracle_arenas.c compares more, with a configuration of its own. */
#ifndef ORACLE_CHECK_MORE
#define ORACLE_CHECK_MORE(where) (void)(where)
#define ORACLE_OPS 10000000
#endif
#ifndef ORACLE_EACH_STEP
#define ORACLE_EACH_STEP()
#endif

#define THREADS 16
#define ROUNDS 20
#define SLOTS 768
#define QUEUE 256
#define FRAMES 64
#define PASSING 24
#define SITES 8
#define SHARED (SITES * (1 + SITES * 2))

/* A span that the oracle opened. `node` is its context in the model. */
struct span {
    jespan_span_t *handle;
    struct model_node *node;
    atomic_uint entered; /* for passing spans, by their thread; nobody reads it for shared spans */
    bool closed;
};

/* The entries of a thread, innermost last. An attachment is above the entry in which it was made, and ends with it. */
enum frame_kind { BASE, ENTERED, SCOPE, ATTACHED };
struct frame {
    enum frame_kind kind;
    struct span *span;
    struct model_node *node;
};

struct worker {
    pthread_t thread;
    unsigned index, generation;
    bool leaves;
    struct random random;
    struct object slots[SLOTS];
    pthread_mutex_t lock; /* for the queue of objects that other threads handed over */
    struct object queue[QUEUE];
    unsigned queued, depth;
    struct frame frames[FRAMES];
    struct span passing[PASSING];
    char label[24];
};

static struct worker *workers;
static struct span shared[SHARED];
static struct model_node *root, *noise;
static unsigned n_shared;
static uint64_t ops_a_round, seed;
static _Atomic uint64_t unique;
static pthread_barrier_t quiet, go;
static const struct jespan_site sites[SITES] = {
    {"accept", "net", "net.c", 10},  {"parse", "net", "net.c", 20},  {"query", "db", "db.c", 30}, {"cache", NULL, NULL, 0},
    {"render", "web", "web.c", 40}, {"reply", "web", "web.c", 50}, {"sync", "db", "db.c", 60},  {"accept", "net", "net.c", 11},
};

static struct model_node *current(const struct worker *w)
{
    return w->frames[w->depth - 1].node;
}

static void check_current(const struct worker *w)
{
    uint32_t id = jespan_current();
    if (id != current(w)->id)
        check_fail("thread %u, depth %u: current is %u, not %u (%s)", w->index, w->depth, id, current(w)->id,
                   current(w)->name);
}

static struct model_node *parent_of_spans(struct model_node *node)
{
    return node->thread ? root : node;
}

/* Returns the number of a span's context. It enters the span for a moment. */
static uint32_t context_of(jespan_span_t *handle, uint64_t *enters)
{
    CHECK_EQ(jespan_enter(handle), 0);
    uint32_t id = jespan_current();
    CHECK_EQ(jespan_exit(handle), 0);
    ++*enters;
    return id;
}

static void open_shared(const struct jespan_site *site, struct model_node *parent, const struct jespan_label *label)
{
    uint64_t enters = 0;
    struct span *s = &shared[n_shared++];
    s->handle = jespan_open(site, parent->id, label, label ? 1 : 0);
    if (!s->handle) {
        check_fail("jespan_open(%s): %s", site->name, strerror(errno));
        _exit(1);
    }
    s->node = model_add(parent, context_of(s->handle, &enters), site->name);
    model_count_figure(s->node, ENTERS, enters);
}

static void open_all_shared(void)
{
    const struct jespan_label tenant = {"tenant", "a tenant"};
    for (unsigned i = 0; i < SITES; i++) {
        struct model_node *top = (open_shared(&sites[i], root, NULL), shared[n_shared - 1].node);
        for (unsigned j = 0; j < SITES; j++) {
            open_shared(&sites[j], top, NULL);
            open_shared(&sites[j], top, &tenant);
        }
    }
}

/* To be called after the call of jespan. */
static void push(struct worker *w, enum frame_kind kind, struct span *span, struct model_node *node)
{
    model_pin(node);
    model_count_figure(node, ENTERS, 1);
    w->frames[w->depth++] = (struct frame){kind, span, node};
}

/* Removes a frame and the attachment in it. To be called before the call of jespan. */
static void drop(struct worker *w, unsigned level)
{
    struct model_node *gone = w->frames[level].node;
    bool has_level = w->frames[level].kind != ATTACHED;
    memmove(&w->frames[level], &w->frames[level + 1], (w->depth - level - 1) * sizeof w->frames[0]);
    w->depth--;
    model_unpin(gone);
    if (has_level && level < w->depth && w->frames[level].kind == ATTACHED)
        drop(w, level);
}

/* Attaches a context in place of an earlier attachment. Attaching the context that is below anyway leaves no
 * attachment. */
static void attach(struct worker *w, struct model_node *node)
{
    CHECK_EQ(jespan_attach(node->id), current(w)->id);
    model_pin(node); /* the replaced attachment may be of the same node */
    if (w->frames[w->depth - 1].kind == ATTACHED)
        drop(w, w->depth - 1);
    if (current(w) != node)
        push(w, ATTACHED, NULL, node);
    model_unpin(node);
    check_current(w);
}

static void span_enter(struct worker *w, struct span *s)
{
    if (w->depth >= FRAMES - 1) /* one frame is left for an attachment */
        return;
    CHECK_EQ(jespan_enter(s->handle), 0);
    s->entered++;
    push(w, ENTERED, s, s->node);
    check_current(w);
}

/* Picks a level above `floor`. If it is an entered span, undoes the last enter of that span. */
static void span_exit(struct worker *w, unsigned floor)
{
    if (w->depth <= floor)
        return;
    unsigned level = random_below(&w->random, 3) ? w->depth - 1 : floor + (unsigned)random_below(&w->random, w->depth - floor);
    struct span *s = w->frames[level].span;
    if (!s)
        return;
    for (unsigned i = level; i < w->depth; i++)
        level = w->frames[i].span == s ? i : level;
    drop(w, level);
    s->entered--;
    CHECK_EQ(jespan_exit(s->handle), 0);
    check_current(w);
}

static void span_close(struct span *s)
{
    s->closed = true;
    model_unpin(s->node);
    jespan_close(s->handle);
}

static const char *unique_label(struct worker *w)
{
    snprintf(w->label, sizeof w->label, "%llu", (unsigned long long)atomic_fetch_add(&unique, 1));
    return w->label;
}

static void passing_open(struct worker *w, struct span *s)
{
    struct model_node *parent = random_below(&w->random, 2) ? parent_of_spans(current(w)) : shared[random_below(&w->random, n_shared)].node;
    const struct jespan_site *site = &sites[random_below(&w->random, SITES)];
    const struct jespan_label labels[] = {{"route", "/"}, {"request", unique_label(w)}};
    uint64_t enters = 0;
    *s = (struct span){.handle = jespan_open(site, parent == parent_of_spans(current(w)) ? JESPAN_CURRENT : parent->id, labels, 2)};
    s->node = model_add(parent, context_of(s->handle, &enters), site->name);
    model_count_figure(s->node, ENTERS, enters);
}

/* A passing span is opened, entered, closed while entered or not, and forgotten when it is closed and left. */
static void passing_step(struct worker *w)
{
    struct span *s = &w->passing[random_below(&w->random, PASSING)];
    if (!s->handle || (s->closed && !s->entered))
        passing_open(w, s);
    else if (!s->closed && random_below(&w->random, 3))
        span_enter(w, s);
    else if (!s->closed)
        span_close(s);
}

/* Two spans of one path have one context. */
static void same_path_step(struct worker *w)
{
    unsigned i = (unsigned)random_below(&w->random, SITES);
    uint64_t enters = 0;
    jespan_span_t *handle = jespan_open(&sites[i], JESPAN_ROOT, NULL, 0);
    CHECK_EQ(context_of(handle, &enters), shared[i * (1 + SITES * 2)].node->id);
    model_count_figure(shared[i * (1 + SITES * 2)].node, ENTERS, enters);
    jespan_close(handle);
}

static void make_survivor(struct worker *w, struct object *o)
{
    struct worker *to = &workers[random_below(&w->random, THREADS)];
    pthread_mutex_lock(&to->lock);
    if (to->queued < QUEUE) {
        to->queue[to->queued++] = *o;
        o->p = NULL;
    }
    pthread_mutex_unlock(&to->lock);
}

static void take_over(struct worker *w)
{
    struct object o = {0};
    pthread_mutex_lock(&w->lock);
    if (w->queued)
        o = w->queue[--w->queued];
    pthread_mutex_unlock(&w->lock);
    if (o.p && random_below(&w->random, 4) == 0)
        object_resize(&o, &w->random, current(w));
    if (o.p)
        object_free(&o, &w->random);
}

static void heap_step(struct worker *w)
{
    struct object *o = &w->slots[random_below(&w->random, SLOTS)];
    if (!o->p)
        object_make(o, &w->random, current(w));
    else if (random_below(&w->random, 4) == 0)
        object_resize(o, &w->random, current(w));
    else if (random_below(&w->random, 4) == 0)
        make_survivor(w, o);
    else if (random_below(&w->random, 4) == 0)
        object_credit(o, random_below(&w->random, 2) ? current(w) : shared[random_below(&w->random, n_shared)].node);
    else
        object_free(o, &w->random);
}

static void steps(struct worker *w, uint64_t n, unsigned floor);

/* Runs steps in a block that was just entered. Spans that are entered inside are left inside. */
static void inside_block(struct worker *w, struct model_node *node, bool is_new)
{
    unsigned floor = w->depth;
    push(w, SCOPE, NULL, node);
    if (is_new)
        model_unpin(node); /* the frame's pin keeps the block's node */
    steps(w, random_below(&w->random, 40), floor + 1);
    while (w->depth > floor + 1) {
        span_exit(w, floor + 1);
        if (w->frames[w->depth - 1].kind == ATTACHED)
            attach(w, w->frames[w->depth - 2].node);
    }
    drop(w, floor);
}

/* A block with a span of its own. */
static void scope_step(struct worker *w)
{
    if (w->depth > FRAMES - 8)
        return;
    struct model_node *parent = parent_of_spans(current(w));
    JESPAN("scope", "request", unique_label(w));
    struct model_node *node = model_add(parent, jespan_current(), "scope");
    inside_block(w, node, true);
}

/* A block that allocates for another owner. */
static void owner_step(struct worker *w)
{
    if (w->depth > FRAMES - 8)
        return;
    struct model_node *node = shared[random_below(&w->random, n_shared)].node;
    JESPAN_CREDIT(node->id);
    inside_block(w, node, false);
}

/* A thread's own context has the thread's name. No two threads of the oracle share one. */
static struct model_node *name_thread(const char *prefix)
{
    char name[MODEL_NAME_BYTES] = "thread:";
    snprintf(name + 7, 16, "%s%llu", prefix, (unsigned long long)atomic_fetch_add(&unique, 1));
    pthread_setname_np(pthread_self(), name + 7);
    struct model_node *node = model_add(root, jespan_current(), name);
    node->thread = true;
    model_count_figure(node, ENTERS, 1);
    return node;
}

static void *guest(void *argument)
{
    struct worker *w = argument;
    struct model_node *node = name_thread("guest");
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < 3 && w->queued < QUEUE; i++)
        object_make(&w->queue[w->queued++], &w->random, node);
    pthread_mutex_unlock(&w->lock);
    model_unpin(node);
    return NULL;
}

/* A thread that leaves objects behind. Objects that libc allocates for it go to a context of their own. */
static void guest_step(struct worker *w)
{
    struct model_node *before = current(w);
    pthread_t thread;
    attach(w, noise);
    CHECK_EQ(pthread_create(&thread, NULL, guest, w), 0);
    pthread_join(thread, NULL);
    attach(w, before);
}

static void step(struct worker *w, unsigned floor)
{
    unsigned draw = (unsigned)random_below(&w->random, 10000);
    if (draw < 7800)
        heap_step(w);
    else if (draw < 8500)
        take_over(w);
    else if (draw < 9000)
        span_enter(w, &shared[random_below(&w->random, n_shared)]);
    else if (draw < 9500)
        span_exit(w, floor);
    else if (draw < 9750)
        passing_step(w);
    else if (draw < 9850)
        attach(w, shared[random_below(&w->random, n_shared)].node);
    else if (draw < 9900)
        same_path_step(w);
    else if (draw < 9960)
        scope_step(w);
    else if (draw < 9995)
        owner_step(w);
    else
        guest_step(w);
}

static void steps(struct worker *w, uint64_t n, unsigned floor)
{
    while (n-- > 0) {
        step(w, floor);
        ORACLE_EACH_STEP();
    }
}

/* Ends the thread with spans still entered. They must not keep their contexts for ever. */
static void leave(struct worker *w)
{
    while (w->depth > 0)
        drop(w, w->depth - 1);
    for (unsigned i = 0; i < PASSING; i++)
        w->passing[i].entered = 0;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    w->frames[0] = (struct frame){.kind = BASE, .node = name_thread("worker")};
    w->depth = 1;
    while (!w->leaves) {
        steps(w, ops_a_round, 1);
        pthread_barrier_wait(&quiet);
        pthread_barrier_wait(&go);
    }
    leave(w);
    return NULL;
}

static void start(struct worker *w)
{
    w->leaves = false;
    CHECK_EQ(pthread_create(&w->thread, NULL, work, w), 0);
}

static void setup(void)
{
    model_begin();
    root = model_find(JESPAN_ROOT);
    static const struct jespan_site noise_site = {"noise", NULL, NULL, 0};
    open_shared(&noise_site, root, NULL);
    noise = shared[--n_shared].node;
    noise->ignored = true;
    jespan_attach(noise->id); /* main only creates threads */
    open_all_shared();
    pthread_barrier_init(&quiet, NULL, THREADS + 1);
    pthread_barrier_init(&go, NULL, THREADS + 1);
    workers = model_map(THREADS * sizeof *workers);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_mutex_init(&workers[i].lock, NULL);
        workers[i].index = i;
        workers[i].random.state = seed * (i + 1) * 0x9e3779b97f4a7c15ull | 1;
    }
}

/* One round: all work, all wait, main compares, and some threads end and are replaced. */
static void round_of_work(unsigned number, bool last)
{
    char where[64];
    snprintf(where, sizeof where, "quiet point %u (ORACLE_SEED=%llu)", number, (unsigned long long)seed);
    pthread_barrier_wait(&quiet);
    model_check(where);
    ORACLE_CHECK_MORE(where);
    for (unsigned i = 0; i < THREADS; i++)
        workers[i].leaves = last || random_below(&workers[i].random, 4) == 0;
    pthread_barrier_wait(&go);
    for (unsigned i = 0; i < THREADS; i++)
        if (workers[i].leaves) {
            pthread_join(workers[i].thread, NULL);
            if (!last)
                start(&workers[i]);
        }
}

static void free_everything(struct worker *w)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (w->slots[i].p)
            object_free(&w->slots[i], &w->random);
    while (w->queued > 0)
        object_free(&w->queue[--w->queued], &w->random);
    for (unsigned i = 0; i < PASSING; i++)
        if (w->passing[i].handle && !w->passing[i].closed)
            span_close(&w->passing[i]);
}

int main(void)
{
    seed = check_env("ORACLE_SEED", 20261121);
    ops_a_round = check_rounds("ORACLE_OPS", ORACLE_OPS) / (THREADS * ROUNDS);
    setup();
    model_check("the start");
    for (unsigned i = 0; i < THREADS; i++)
        start(&workers[i]);
    for (unsigned number = 1; number <= ROUNDS; number++)
        round_of_work(number, number == ROUNDS);
    model_check("the end of all threads");
    for (unsigned i = 0; i < THREADS; i++)
        free_everything(&workers[i]);
    model_check("everything freed");
    ORACLE_CHECK_MORE("everything freed");
    check_note("oracle: %u contexts, %llu objects, no error", model_count,
               (unsigned long long)ctl_u64("spans.all.alloc_objects"));
    return check_result();
}
