/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits against a model. Threads allocate, resize, hand over and free objects in a tree of contexts, while limits come, change
 * and go. The model keeps two accounts for each context and all below it: what is surely in use (entered after malloc has
 * returned, taken off before free is called) and the most that may be (the other way round). So
 *
 *     never above:   what is surely in use never exceeds the limit,
 *     never false:   a request is refused only where the most that may be in use, with it, exceeds a limit,
 *     exact at rest: without other threads, a limit's figure is the sum of the contexts' below it,
 *
 * where a new limit holds for what began after jespan_set_limit() had returned, and may take LIMITS_UNSEEN bytes for each
 * thread that was inside as it was set.
 *
 * LIMITS_THREADS (16; with a sanitizer 6), LIMITS_ROUNDS a thread (20,000; 1,000), LIMITS_SEED (1). */
#define _GNU_SOURCE
#include <jespan/limit.h>

#include <pthread.h>
#include <stdatomic.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/many_locks.h"

enum { GROUPS = 3, TENANTS = 4, REQUESTS = 2, SLOTS = 512, DEPTH = 3, LIMITS_UNSEEN = 4096, THREADS_MAX = 4000 };
enum { NODES = GROUPS * (1 + TENANTS * (1 + REQUESTS)) + 1, FREE_NODE = NODES - 1 }; /* the last never has a limit */

JESPAN_SITE(group_site, "group");
JESPAN_SITE(tenant_site, "tenant");
JESPAN_SITE(request_site, "request");

struct node {
    int parent, depth; /* −1: no limit */
    jespan_context_t context;
    jespan_span_t *span;
    pthread_mutex_t mutex;      /* of the thread that sets its limit */
    atomic_uint version;        /* odd while it is set */
    atomic_ullong hard, allowed;
    atomic_llong sure, most;
    atomic_ullong entered;      /* into `most`, ever */
    atomic_bool has_unseen;     /* the limit came to threads that were inside */
};
static struct node nodes[NODES];

struct object {
    atomic_bool taken;
    void *p;
    size_t usable;
    int node;
};
static struct object table[SLOTS];
static atomic_bool over;
static atomic_ullong refusals, checked;
static unsigned n_threads;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- The tree ---- */

static int make_node(int *n, int parent, const struct jespan_site *site)
{
    struct node *node = &nodes[*n];
    const struct jespan_label label = JESPAN_LABEL_INT("n", (unsigned)*n);
    node->parent = parent;
    node->depth = parent < 0 ? 1 : nodes[parent].depth + 1;
    node->span = jespan_open(site, parent < 0 ? JESPAN_ROOT : nodes[parent].context, &label, 1);
    CHECK(node->span != NULL);
    CHECK_EQ(jespan_enter(node->span), 0);
    node->context = jespan_current();
    CHECK_EQ(jespan_exit(node->span), 0);
    pthread_mutex_init(&node->mutex, NULL);
    node->allowed = UINT64_MAX;
    return (*n)++;
}

static void make_nodes(void)
{
    int n = 0;
    for (int g = 0; g < GROUPS; g++) {
        int group = make_node(&n, -1, &group_site);
        for (int t = 0; t < TENANTS; t++) {
            int tenant = make_node(&n, group, &tenant_site);
            for (int r = 0; r < REQUESTS; r++)
                make_node(&n, tenant, &request_site);
        }
    }
    CHECK_EQ(make_node(&n, -1, &group_site), FREE_NODE);
}

/* ---- The accounts ---- */

static void enter_most(int at, size_t bytes)
{
    for (; at >= 0; at = nodes[at].parent) {
        nodes[at].most += (long long)bytes;
        nodes[at].entered += bytes;
    }
}

static void leave_most(int at, size_t bytes)
{
    for (; at >= 0; at = nodes[at].parent)
        nodes[at].most -= (long long)bytes;
}

static void leave_sure(int at, size_t bytes)
{
    for (; at >= 0; at = nodes[at].parent)
        nodes[at].sure -= (long long)bytes;
}

/* The limits before a call that may be refused. The call's bytes are in `most` already. */
struct before {
    unsigned version[DEPTH];
    unsigned long long entered[DEPTH];
    long long most[DEPTH];
};

static void look_before(struct before *b, int at)
{
    for (int i = 0; at >= 0; at = nodes[at].parent, i++) {
        b->version[i] = nodes[at].version;
        b->entered[i] = nodes[at].entered;
        b->most[i] = nodes[at].most;
    }
}

static void enter_sure(const struct before *b, int at, size_t bytes)
{
    for (int i = 0; at >= 0; at = nodes[at].parent, i++) {
        struct node *n = &nodes[at];
        long long sure = atomic_fetch_add(&n->sure, (long long)bytes) + (long long)bytes;
        unsigned long long allowed = n->allowed;
        if (b->version[i] & 1 || n->version != b->version[i])
            continue;
        checked++;
        if (sure > 0 && (unsigned long long)sure > allowed)
            check_fail("context %u: %lld bytes are surely in use, %llu are allowed; limit %llu, by its figure %llu, in use %llu, "
                       "%lld at most, node %d",
                       (unsigned)n->context, sure, allowed, n->hard, (unsigned long long)ctl_span(n->context, "limit_inuse_bytes"),
                       (unsigned long long)ctl_span(n->context, "total.inuse_bytes"), n->most, at);
    }
}

/* Checks that a refused call has changed nothing. */
static void enter_sure_again(const struct object *o)
{
    for (int at = o->node; at >= 0; at = nodes[at].parent)
        nodes[at].sure += (long long)o->usable;
}

static void check_refusal(const struct before *b, int at, size_t bytes)
{
    int node = at;
    refusals++;
    for (int i = 0; at >= 0; at = nodes[at].parent, i++) {
        struct node *n = &nodes[at];
        unsigned long long hard = n->hard, unseen = n->has_unseen ? (unsigned long long)n_threads * DEPTH * LIMITS_UNSEEN : 0;
        unsigned long long most = (unsigned long long)b->most[i] + (n->entered - b->entered[i]) + unseen;
        if (b->version[i] & 1 || n->version != b->version[i] || (hard && most > hard))
            return;
    }
    check_fail("context %u: %zu bytes were refused, for which there was room", (unsigned)nodes[node].context, bytes);
}

/* ---- What threads do ---- */

static size_t some_size(uint64_t *state)
{
    uint64_t r = next(state);
    return r % 64 == 0 ? (size_t)1 << 30 : r % 4 ? 1 + next(state) % 2000 : 1 + next(state) % 60000;
}

static void *allocate(size_t size, uint64_t how)
{
    void *p = NULL;
    switch (how % 6) {
    case 0:
        return F(calloc)(1, size);
    case 1:
        return F(aligned_alloc)(64, (size + 63) & ~(size_t)63);
    case 2:
        return F(posix_memalign)(&p, 4096, size) ? NULL : p;
    case 3:
        return F(mallocx)(size, 0);
    default:
        return F(malloc)(size);
    }
}

/* Allocates an object in any way. */
static size_t most_of(size_t size)
{
    size_t plain = F(nallocx)(size, 0), aligned = F(nallocx)(size, FLAG_LG_ALIGN(12));
    return plain > aligned ? plain : aligned;
}

static struct object *take_slot(uint64_t *state)
{
    struct object *o = &table[next(state) % SLOTS];
    return atomic_exchange(&o->taken, true) ? NULL : o;
}

static void release(struct object *o)
{
    if (!o->p)
        return;
    leave_sure(o->node, o->usable);
    F(free)(o->p);
    leave_most(o->node, o->usable);
    o->p = NULL;
}

static void fill(struct object *o, int node, uint64_t *state)
{
    struct before before;
    size_t size = some_size(state), most = most_of(size);
    enter_most(node, most);
    look_before(&before, node);
    CHECK_EQ(jespan_enter(nodes[node].span), 0);
    void *p = allocate(size, next(state));
    CHECK_EQ(jespan_exit(nodes[node].span), 0);
    if (!p) {
        check_refusal(&before, node, size);
        leave_most(node, most);
        return;
    }
    o->p = p;
    o->usable = F(malloc_usable_size)(p);
    o->node = node;
    enter_sure(&before, node, o->usable);
    leave_most(node, most - o->usable);
}

/* Resizes an object in its own context. If it moves, both objects are in use for a while. */
static void resize(struct object *o, uint64_t *state)
{
    struct before before;
    size_t size = next(state) % 3 ? o->usable - next(state) % (o->usable / 2) : some_size(state);
    size_t most = F(nallocx)(size, 0);
    enter_most(o->node, most);
    look_before(&before, o->node);
    leave_sure(o->node, o->usable);
    CHECK_EQ(jespan_enter(nodes[o->node].span), 0);
    void *p = F(realloc)(o->p, size);
    CHECK_EQ(jespan_exit(nodes[o->node].span), 0);
    if (!p) {
        check_refusal(&before, o->node, size);
        enter_sure_again(o);
        leave_most(o->node, most);
        return;
    }
    size_t usable = F(malloc_usable_size)(p);
    enter_sure(&before, o->node, usable);
    leave_most(o->node, most - usable + o->usable);
    o->p = p;
    o->usable = usable;
}

/* Resizes to the same size in another context, which is never refused. The new owner depends on whether its limit
 * admits the object. */
static void resize_elsewhere(struct object *o, int node)
{
    size_t usable = o->usable;
    enter_most(node, usable);
    leave_sure(o->node, usable);
    CHECK_EQ(jespan_enter(nodes[node].span), 0);
    void *p = F(realloc)(o->p, usable);
    CHECK_EQ(jespan_exit(nodes[node].span), 0);
    CHECK(p == o->p);
    F(free)(p);
    leave_most(node, usable);
    leave_most(o->node, usable);
    o->p = NULL;
}

static void make_survivor(struct object *o, int node)
{
    struct before before;
    enter_most(node, o->usable);
    look_before(&before, node);
    leave_sure(o->node, o->usable);
    int error = jespan_credit(o->p, nodes[node].context);
    if (!error) {
        enter_sure(&before, node, o->usable);
        leave_most(o->node, o->usable);
        o->node = node;
        return;
    }
    CHECK_EQ(error, ENOMEM);
    if (o->node != node)
        check_refusal(&before, node, o->usable);
    enter_sure_again(o);
    leave_most(node, o->usable);
}

static void step(uint64_t *state)
{
    struct object *o = take_slot(state);
    int node = (int)(next(state) % NODES);
    if (!o)
        return;
    uint64_t what = next(state) % 16;
    if (!o->p)
        fill(o, node, state);
    else if (what < 3)
        resize(o, state);
    else if (what == 3)
        resize_elsewhere(o, node);
    else if (what < 6)
        make_survivor(o, node);
    else
        release(o);
    atomic_store(&o->taken, false);
}

/* ---- Limits ---- */

static void set_limit(int at, unsigned long long hard)
{
    struct node *n = &nodes[at];
    pthread_mutex_lock(&n->mutex);
    n->version++;
    n->has_unseen = n->has_unseen || !n->hard;
    n->hard = hard;
    n->allowed = UINT64_MAX;
    CHECK_EQ(jespan_set_limit(n->context, 0, hard), 0);
    long long most = n->most;
    n->allowed = !hard ? UINT64_MAX : most > 0 && (unsigned long long)most > hard ? (unsigned long long)most : hard;
    n->version++;
    pthread_mutex_unlock(&n->mutex);
}

/* Bytes that were beyond the limit when it was set may be freed by now. */
static void tighten(int at)
{
    struct node *n = &nodes[at];
    if (pthread_mutex_trylock(&n->mutex))
        return;
    n->version++;
    unsigned long long hard = n->hard;
    long long most = n->most;
    if (hard && most > 0 && (unsigned long long)most < n->allowed)
        n->allowed = (unsigned long long)most > hard ? (unsigned long long)most : hard;
    n->version++;
    pthread_mutex_unlock(&n->mutex);
}

static unsigned long long some_hard(int at, uint64_t *state)
{
    unsigned long long base = nodes[at].depth == 1 ? 1500000 : nodes[at].depth == 2 ? 400000 : 150000;
    return base / 2 + next(state) % base;
}

/* The first group and the contexts below it have limits from the beginning. These change, but are never removed. */
static bool always_has(int at)
{
    while (nodes[at].parent >= 0)
        at = nodes[at].parent;
    return at == 0;
}

static void set_some_limit(uint64_t *state)
{
    int at = (int)(next(state) % FREE_NODE);
    if (next(state) % 2)
        tighten(at);
    else
        set_limit(at, always_has(at) || next(state) % 3 ? some_hard(at, state) : 0);
}

static void set_first_limits(uint64_t *state)
{
    for (int at = 0; at < FREE_NODE; at++)
        if (always_has(at)) {
            set_limit(at, some_hard(at, state));
            nodes[at].has_unseen = false;
        }
}

/* ---- Rest ---- */

static void check_rest(const char *where)
{
    for (int at = 0; at < FREE_NODE; at++) {
        jespan_context_t context = nodes[at].context;
        if (ctl_span(context, "limit_hard") && ctl_span(context, "limit_inuse_bytes") != ctl_span(context, "total.inuse_bytes"))
            check_fail("%s: context %u: %llu bytes by its limit, %llu in use", where, (unsigned)context,
                       (unsigned long long)ctl_span(context, "limit_inuse_bytes"),
                       (unsigned long long)ctl_span(context, "total.inuse_bytes"));
    }
}

static void check_end(void)
{
    check_rest("the end");
    for (int at = 0; at < NODES; at++)
        CHECK_EQ(nodes[at].sure, nodes[at].most);
    for (int at = 0; at < FREE_NODE; at++)
        if (nodes[at].hard)
            CHECK_EQ(ctl_span(nodes[at].context, "limit_inuse_bytes"), (unsigned long long)nodes[at].sure);
    for (int i = 0; i < SLOTS; i++)
        release(&table[i]);
    check_rest("with nothing left");
    for (int at = 0; at < FREE_NODE; at++)
        if (nodes[at].hard) {
            CHECK_EQ(ctl_span(nodes[at].context, "limit_inuse_bytes"), 0);
            CHECK_EQ(jespan_set_limit(nodes[at].context, 0, 0), 0);
        }
    CHECK_EQ(ctl_u64("spans.stats.limits"), 0);
    CHECK(refusals > 0 && checked > 100);
    ctl_await_identity("the end");
    for (int at = NODES; at--;)
        CHECK_EQ(jespan_close(nodes[at].span), 0);
}

/* ---- The cases ---- */

static uint64_t seed_of(uintptr_t number)
{
    return check_env("LIMITS_SEED", 1) * 1000003 + number;
}

static void *work(void *number)
{
    uint64_t state = seed_of((uintptr_t)number);
    for (uint64_t i = check_rounds("LIMITS_ROUNDS", FAMILY_INTERPOSED ? 20000 : 1000); i--;)
        step(&state);
    return NULL;
}

static void *set_limits(void *number)
{
    uint64_t state = seed_of((uintptr_t)number);
    while (!over) {
        set_some_limit(&state);
        usleep(200);
    }
    return NULL;
}

/* A child has the parent's objects at one moment, and has no other thread. */
static void fork_once(uint64_t *state)
{
    pid_t pid = fork();
    if (pid == 0) {
        check_rest("in a child");
        over = true;
        for (int i = 0; i < SLOTS; i++)
            if (!atomic_exchange(&table[i].taken, true))
                release(&table[i]);
        for (int at = 0; at < FREE_NODE; at++) {
            nodes[at].has_unseen = true;
            CHECK_EQ(jespan_set_limit(nodes[at].context, 0, next(state) % 2 ? 1000000 : 0), 0);
        }
        check_rest("in a child with other limits");
        _exit(check_failures != 0);
    }
    CHECK_CHILD(pid);
}

static void run(int forks)
{
    static pthread_t threads[THREADS_MAX + 1];
    pthread_attr_t attributes;
    uint64_t state = seed_of(THREADS_MAX + 1);
    n_threads = (unsigned)check_env("LIMITS_THREADS", FAMILY_INTERPOSED ? 16 : 6);
    n_threads = n_threads < THREADS_MAX ? n_threads : THREADS_MAX;
    make_nodes();
    set_first_limits(&state);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    for (uintptr_t i = 0; i < n_threads; i++)
        CHECK_EQ(pthread_create(&threads[i], &attributes, work, (void *)i), 0);
    CHECK_EQ(pthread_create(&threads[THREADS_MAX], &attributes, set_limits, (void *)(uintptr_t)THREADS_MAX), 0);
    for (int i = 0; i < forks; i++) {
        fork_once(&state);
        usleep(1000);
    }
    for (unsigned i = 0; i < n_threads; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    over = true;
    CHECK_EQ(pthread_join(threads[THREADS_MAX], NULL), 0);
    check_end();
}

static void threads(void)
{
    run(0);
}

static void forks(void)
{
    run(FAMILY_INTERPOSED ? 50 : 5);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"threads", threads, NULL, NULL},
        {"threads, with periods", threads, NULL, "age_period_s:1"},
        {"threads, with arenas", threads, NULL, "arena:tenant=by:n,max_arenas:20"},
        {"threads, with few contexts", threads, NULL, "max_contexts:64"},
        /* Each second, memory of each context gets a number of its own. 128 do not suffice on a slow machine, and the limits hold. */
        {"threads, with few contexts and periods", threads, NULL, "max_contexts:128,age_period_s:1",
         CASE_SAYS_OVERFLOW(128), true},
        {"forks", forks, "narenas:1", NULL},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
