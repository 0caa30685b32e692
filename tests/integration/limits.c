/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that meet their limits: which request is refused, in every form of allocation, and what makes room. Bytes
 * in use never exceed a limit. on_limit does what it says. */
#define _GNU_SOURCE
#include <jespan/limit.h>

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "../support/cases.h"
#include "../support/ctl.h"

enum { KIB = 1024, MIB = 1024 * KIB };

JESPAN_SITE(tenant_site, "tenant");
JESPAN_SITE(request_site, "request");

/* Uses the object, since a compiler may leave out the allocation of an unused one. */
static void *volatile kept;

static jespan_span_t *open_tenant(unsigned number, jespan_context_t *context)
{
    const struct jespan_label label = JESPAN_LABEL_INT("n", number);
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &label, 1);
    CHECK(span);
    CHECK_EQ(jespan_enter(span), 0);
    *context = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return span;
}

static jespan_span_t *span;
static jespan_context_t context;

static void open_limited(uint64_t hard)
{
    span = open_tenant(0, &context);
    CHECK_EQ(jespan_set_limit(context, 0, hard), 0);
}

/* ---- Tenants ---- */

/* Bytes that each tenant keeps, and its refusals. Only number 42 of the hundred wants more than its limit. */
enum { TENANTS = 100, THREADS = 4, ROGUE = 42, OBJECTS = 200 };
static struct tenant {
    jespan_span_t *span;
    jespan_context_t context;
    void *objects[OBJECTS];
    unsigned held, refused;
    pthread_mutex_t mutex;
} tenants[TENANTS];

/* A tenant takes at most a tenth of its limit, except for the rogue. */
static void serve(struct tenant *tenant, bool is_rogue, unsigned seed)
{
    size_t bytes = is_rogue ? 20 * KIB : 16 + seed % 500;
    pthread_mutex_lock(&tenant->mutex);
    CHECK_EQ(jespan_enter(tenant->span), 0);
    jespan_span_t *request = jespan_open(&request_site, JESPAN_CURRENT, NULL, 0);
    if (request && !jespan_enter(request)) {
        if (tenant->held == OBJECTS && !is_rogue)
            while (tenant->held)
                free(tenant->objects[--tenant->held]);
        void *p = malloc(bytes);
        if (p && tenant->held < OBJECTS)
            tenant->objects[tenant->held++] = p;
        else
            free(p);
        tenant->refused += !p;
        CHECK_EQ(jespan_exit(request), 0);
        jespan_close(request);
    }
    CHECK_EQ(jespan_exit(tenant->span), 0);
    pthread_mutex_unlock(&tenant->mutex);
}

static void *serve_all(void *seed)
{
    unsigned x = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < 100000; i++) {
        x = x * 1103515245 + 12345;
        unsigned n = (x >> 16) % TENANTS;
        serve(&tenants[n], n == ROGUE, x >> 8);
    }
    return NULL;
}

static void check_tenants(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, serve_all, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    uint64_t refused = 0;
    for (int i = 0; i < TENANTS; i++) {
        CHECK_EQ(tenants[i].refused != 0, i == ROGUE);
        CHECK_EQ(ctl_span(tenants[i].context, "limit_refusals"), tenants[i].refused);
        CHECK_EQ(ctl_span(tenants[i].context, "limit_inuse_bytes"), ctl_span(tenants[i].context, "total.inuse_bytes"));
        refused += tenants[i].refused;
    }
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), refused);
    CHECK_EQ(ctl_u64("spans.stats.limits"), TENANTS);
    CHECK(ctl_span(tenants[ROGUE].context, "limit_inuse_bytes") <= MIB);
    ctl_await_identity("tenants");
}

static void open_tenants(void)
{
    for (unsigned i = 0; i < TENANTS; i++) {
        tenants[i].span = open_tenant(i, &tenants[i].context);
        pthread_mutex_init(&tenants[i].mutex, NULL);
    }
}

static void one_rogue_of_100(void)
{
    open_tenants();
    for (unsigned i = 0; i < TENANTS; i++)
        CHECK_EQ(jespan_set_limit(tenants[i].context, 0, MIB), 0);
    check_tenants();
}

static void one_rogue_of_100_configured(void)
{
    open_tenants();
    check_tenants();
}

/* ---- Every form ---- */

static void check_refused(void *p, int line)
{
    if (p || errno != ENOMEM)
        check_fail("%s:%d: not refused, or errno is %d", __FILE__, line, errno);
    free(p);
    errno = 0;
}
#define REFUSED(call) (kept = (call), check_refused(kept, __LINE__))

/* clang assumes that valloc does not change errno, also with -fno-builtin-valloc. */
static void *(*volatile call_valloc)(size_t) = valloc;

static void every_form_is_refused(void)
{
    open_limited(1000 * KIB);
    CHECK_EQ(jespan_enter(span), 0);
    char *volatile fits = malloc(890 * KIB), *volatile small = malloc(100); /* volatile: compilers warn of use after realloc */
    void *out = NULL;
    CHECK(fits && small);
    memset(fits, 7, 890 * KIB);
    memset(small, 7, 100);
    errno = 0;
    REFUSED(malloc(100 * KIB));
    REFUSED(calloc(100, KIB));
    REFUSED(realloc(NULL, 100 * KIB));
    REFUSED(realloc(small, 100 * KIB));
    REFUSED(realloc(fits, 3 * MIB));
    REFUSED(reallocarray(fits, 3, MIB));
    REFUSED(aligned_alloc(4096, 100 * KIB));
    REFUSED(memalign(64, 100 * KIB));
    REFUSED(call_valloc(100 * KIB));
    REFUSED(pvalloc(100 * KIB));
    CHECK_EQ(posix_memalign(&out, 64, 100 * KIB), ENOMEM);
    CHECK(!out && !errno);
    uint64_t refusals = ctl_span(context, "limit_refusals");
    CHECK_EQ(refusals, 11);
    CHECK_EQ(fits[890 * KIB - 1], 7); /* untouched */
    CHECK_EQ(small[99], 7);
    CHECK((fits = realloc(fits, 10)) && (kept = calloc(100, KIB)));
    free(kept);
    free(fits);
    free(small);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK((kept = malloc(3 * MIB))); /* nobody else is */
    free(kept);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
}

/* Within its limit, a program allocates objects of any size as without a limit. */
static void all_sizes_fit(void)
{
    open_limited((uint64_t)1 << 30);
    CHECK_EQ(jespan_enter(span), 0);
    for (size_t size = 0; size < 100 * MIB; size = size * 3 / 2 + 1) {
        char *p = malloc(size);
        CHECK(p && malloc_usable_size(p) >= size);
        memset(p, 1, size);
        CHECK((p = realloc(p, size + size / 3 + 1)));
        CHECK(size == 0 || p[size - 1] == 1);
        free(p);
    }
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    CHECK_EQ(ctl_span(context, "limit_refusals"), 0);
    ctl_await_identity("all sizes");
}

/* ---- What makes room ---- */

static void *free_it(void *p)
{
    free(p);
    return NULL;
}

/* pthread_create() allocates too. */
static void free_elsewhere(void *p)
{
    pthread_t thread;
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(pthread_create(&thread, NULL, free_it, p), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(jespan_enter(span), 0);
}

/* At the limit, freed bytes can be allocated again at once, whichever thread frees. */
static void a_free_makes_room(void)
{
    static const size_t sizes[] = {64, 1024, 5000, 100 * KIB};
    static void *objects[MIB / 64 + 1];
    open_limited(MIB);
    for (int s = 0; s < 4; s++) {
        size_t n = 0, last = 0;
        CHECK_EQ(jespan_enter(span), 0);
        while (n <= MIB / 64 && (objects[n] = malloc(sizes[s])))
            n++;
        CHECK(n > 0 && n < MIB / 64 + 1);
        for (int i = 0; i < 200; i++) {
            last = (last + 7) % n;
            kept = malloc(sizes[s]);
            CHECK(!kept);
            if (i % 10 == 9) {
                free_elsewhere(objects[last]);
            } else {
                free(objects[last]);
            }
            CHECK((objects[last] = malloc(sizes[s])));
        }
        while (n)
            free(objects[--n]);
        CHECK_EQ(jespan_exit(span), 0);
        CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    }
}

/* A thread frees objects of several owners, in runs of different lengths. Then each owner has nothing in use, and may have its
 * whole limit again at once. */
static void frees_of_several_owners(void)
{
    enum { OWNERS = 3, ROUNDS = 50, N = 1200 };
    static const size_t sizes[] = {16, 100, 1024, 3000, 6000, 9000};
    static void *objects[N];
    jespan_span_t *spans[OWNERS];
    jespan_context_t contexts[OWNERS];
    for (unsigned i = 0; i < OWNERS; i++) {
        spans[i] = open_tenant(i, &contexts[i]);
        CHECK_EQ(jespan_set_limit(contexts[i], 0, 4 * MIB), 0);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned run = 1 + round % 40, n = 0;
        for (unsigned owner = 0; n < N; owner = (owner + 1) % OWNERS) {
            CHECK_EQ(jespan_enter(spans[owner]), 0);
            for (unsigned i = 0; i < run && n < N; i++, n++)
                CHECK((objects[n] = malloc(sizes[(n / 3 + round) % 6])));
            CHECK_EQ(jespan_exit(spans[owner]), 0);
        }
        while (n)
            free(objects[--n]);
        for (unsigned i = 0; i < OWNERS; i++) {
            CHECK_EQ(ctl_span(contexts[i], "limit_inuse_bytes"), 0);
            CHECK_EQ(jespan_enter(spans[i]), 0);
            CHECK((objects[0] = malloc(4 * MIB)));
            kept = malloc(1);
            CHECK(!kept);
            free(objects[0]);
            CHECK_EQ(jespan_exit(spans[i]), 0);
        }
    }
}

/* An object that does not fit keeps its owner. For a limit above both contexts, a move changes nothing. */
static void moves_must_fit(void)
{
    jespan_context_t other;
    jespan_span_t *other_span = open_tenant(1, &other);
    open_limited(10 * KIB);
    void *p = malloc(100 * KIB), *q = malloc(8 * KIB);
    CHECK_EQ(jespan_credit(p, context), ENOMEM);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    CHECK_EQ(ctl_span(context, "total.inuse_bytes"), 0);
    CHECK_EQ(ctl_span(context, "limit_refusals"), 1);
    CHECK_EQ(jespan_credit(q, context), 0);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 8 * KIB);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK(!(kept = malloc(3 * KIB)));
    CHECK_EQ(jespan_set_limit(JESPAN_ROOT, 0, ctl_u64("spans.all.inuse_bytes") + 4 * KIB), 0);
    CHECK_EQ(jespan_credit(q, other), 0);
    CHECK_EQ(jespan_credit(q, context), 0);
    CHECK_EQ(jespan_credit(q, JESPAN_BASE), 0);
    CHECK_EQ(jespan_set_limit(JESPAN_ROOT, 0, 0), 0);
    CHECK((kept = malloc(3 * KIB)));
    free(kept);
    CHECK_EQ(jespan_exit(span), 0);
    free(p);
    free(q);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    CHECK_EQ(jespan_close(other_span), 0);
    ctl_await_identity("moves");
}

/* ---- Resizing ---- */

/* Resizing in place to the same or a smaller size is never refused. An object that does not fit into the server's own
 * limit stays the tenant's. */
static void a_server_resizes_what_is_a_tenants(void)
{
    jespan_context_t server;
    jespan_span_t *server_span = open_tenant(1, &server);
    open_limited(10 * MIB);
    CHECK_EQ(jespan_set_limit(server, 0, 100 * KIB), 0);
    CHECK_EQ(jespan_enter(span), 0);
    char *volatile big = malloc(4 * MIB), *volatile small = malloc(1000);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK(big && small);
    CHECK_EQ(jespan_set_limit(context, 0, 4 * MIB + 1024), 0); /* it is full */
    CHECK_EQ(jespan_enter(server_span), 0);
    CHECK_EQ((uintptr_t)realloc(big, 4 * MIB), (uintptr_t)big);
    CHECK_EQ((uintptr_t)realloc(big, 3 * MIB), (uintptr_t)big);
    CHECK_EQ(ctl_span(server, "limit_inuse_bytes"), 0);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 3 * MIB + 1024);
    CHECK_EQ((uintptr_t)realloc(small, 1001), (uintptr_t)small); /* it can grow in place */
    CHECK_EQ(ctl_span(server, "limit_inuse_bytes"), 1024);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 3 * MIB);
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), 0);
    CHECK_EQ(jespan_exit(server_span), 0);
    free(big);
    free(small);
    CHECK_EQ(ctl_span(server, "limit_inuse_bytes"), 0);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    CHECK_EQ(jespan_close(server_span), 0);
    ctl_await_identity("resized");
}

/* The object grows elsewhere if there is room, also in free buffers and stocks. */
static void a_resized_object_goes_where_there_is_room(void)
{
    jespan_context_t small;
    jespan_span_t *small_span = open_tenant(1, &small);
    void *volatile filled[32];
    open_limited(10 * MIB);
    CHECK_EQ(jespan_set_limit(small, 0, 100000), 0);
    CHECK_EQ(jespan_enter(span), 0);
    char *volatile p = malloc(3000);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_enter(small_span), 0);
    for (int i = 0; i < 32; i++)
        CHECK((filled[i] = malloc(3000)) != NULL);
    for (int i = 2; i < 32; i++)
        free(filled[i]);
    CHECK_EQ((uintptr_t)realloc(p, 2900), (uintptr_t)p);
    CHECK_EQ(ctl_span(small, "limit_inuse_bytes"), 3 * 3072);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    free(filled[0]);
    free(filled[1]);
    free(p);
    CHECK_EQ(jespan_exit(small_span), 0);
    CHECK_EQ(jespan_close(small_span), 0);
    ctl_await_identity("moved by a resize");
}

static _Atomic bool stop;

static void *resize_until_stopped(void *big)
{
    CHECK_EQ(jespan_enter(span), 0);
    for (size_t size = 50000000; !stop; size ^= 1) {
        void *p = realloc(big, size);
        big = p ? p : big;
    }
    free(big);
    CHECK_EQ(jespan_exit(span), 0);
    return NULL;
}

/* While an object is resized, it counts as in use all the time. */
static void a_resize_leaves_no_gap(void)
{
    pthread_t thread;
    open_limited(64 * MIB);
    CHECK_EQ(jespan_enter(span), 0);
    void *big = malloc(50000000);
    CHECK(big);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(pthread_create(&thread, NULL, resize_until_stopped, big), 0);
    CHECK_EQ(jespan_enter(span), 0);
    for (int i = 0; i < 20000; i++)
        CHECK(!(kept = malloc(40000000)));
    CHECK_EQ(jespan_exit(span), 0);
    stop = true;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
}

/* ---- Many threads ---- */

enum { MANY = 16, FILL_MAX = 200000 };
static pthread_barrier_t all_inside;

static void *fill(void *seed)
{
    static void *all[MANY][FILL_MAX];
    void **objects = all[(uintptr_t)seed - 1];
    uint64_t x = (uintptr_t)seed;
    size_t n = 0;
    CHECK_EQ(jespan_enter(span), 0);
    pthread_barrier_wait(&all_inside);
    for (int failed = 0; failed < 100 && n < FILL_MAX; x = x * 6364136223846793005u + 1) {
        objects[n] = malloc(16 + (x >> 40) % ((x >> 33) % 16 ? 1000 : 200 * KIB));
        failed = objects[n] ? 0 : failed + 1;
        n += objects[n] != NULL;
    }
    pthread_barrier_wait(&all_inside);
    pthread_barrier_wait(&all_inside); /* looked at */
    while (n)
        free(objects[--n]);
    CHECK_EQ(jespan_exit(span), 0);
    return NULL;
}

static void nothing_is_over(void)
{
    static const uint64_t limits[] = {1 * MIB, 8 * MIB, 64 * MIB};
    open_limited(1);
    pthread_barrier_init(&all_inside, NULL, MANY + 1);
    for (int i = 0; i < 3; i++) {
        pthread_t threads[MANY];
        CHECK_EQ(jespan_set_limit(context, 0, limits[i]), 0);
        for (uintptr_t t = 0; t < MANY; t++)
            CHECK_EQ(pthread_create(&threads[t], NULL, fill, (void *)(t + 1)), 0);
        pthread_barrier_wait(&all_inside);
        pthread_barrier_wait(&all_inside);
        uint64_t inuse = ctl_span(context, "limit_inuse_bytes");
        CHECK(inuse <= limits[i]);
        CHECK(inuse >= limits[i] / 2);
        pthread_barrier_wait(&all_inside);
        for (int t = 0; t < MANY; t++)
            CHECK_EQ(pthread_join(threads[t], NULL), 0);
        CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    }
}

enum { CHURNERS = 16, CHURNS = 10000 };

static void *churn(void *unused)
{
    CHECK_EQ(jespan_enter(span), 0);
    for (int i = 0; i < CHURNS; i++) {
        char *volatile p = malloc(100000);
        CHECK(p);
        free(p);
    }
    CHECK_EQ(jespan_exit(span), 0);
    return unused;
}

static void *ask_for_too_much(void *unused)
{
    CHECK_EQ(jespan_enter(span), 0);
    while (!stop)
        CHECK(!(kept = malloc(1 << 30)));
    CHECK_EQ(jespan_exit(span), 0);
    return unused;
}

/* Threads allocate and free 1.8 MB together, far below their limit of 64 MB, while another context is refused. No
 * figure is much higher than the live bytes. */
static void nobody_is_refused_falsely(void)
{
    pthread_t threads[CHURNERS], rogue;
    bool aborts = strstr(getenv("JESPAN_CONF"), "on_limit:abort");
    uint64_t most = 0;
    open_limited(64000000);
    for (int i = 0; i < CHURNERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
    if (!aborts)
        CHECK_EQ(pthread_create(&rogue, NULL, ask_for_too_much, NULL), 0);
    for (int i = 0; i < 200; i++) {
        const uint64_t figures[] = {ctl_span(context, "inuse_bytes"), ctl_u64("spans.all.inuse_bytes"),
                                    ctl_span(context, "total.inuse_bytes"), ctl_span(context, "limit_inuse_bytes")};
        for (int k = 0; k < 4; k++)
            most = figures[k] > most ? figures[k] : most;
    }
    for (int i = 0; i < CHURNERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    stop = true;
    if (!aborts)
        CHECK_EQ(pthread_join(rogue, NULL), 0);
    CHECK(most <= 4000000);
}

static _Atomic unsigned refused, admitted;

static void *allocate_until_stopped(void *unused)
{
    CHECK_EQ(jespan_enter(span), 0);
    pthread_barrier_wait(&all_inside);
    while (!stop) {
        void *p = malloc(200);
        *(p ? &admitted : &refused) += 1;
        free(p);
    }
    CHECK_EQ(jespan_exit(span), 0);
    return unused;
}

static bool comes_about(_Atomic unsigned *counter)
{
    unsigned before = *counter;
    for (int i = 0; i < 600000 && *counter < before + 100; i++)
        usleep(1000);
    return *counter >= before + 100;
}

/* A limit is set on a context that threads are in and never leave. */
static void a_limit_set_live(void)
{
    pthread_t threads[4];
    char name[64];
    uint64_t bytes = 100, none = 0;
    span = open_tenant(0, &context);
    pthread_barrier_init(&all_inside, NULL, 5);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, allocate_until_stopped, NULL), 0);
    pthread_barrier_wait(&all_inside);
    ctl_span_name(name, sizeof name, context, "limit_hard");
    for (int i = 0; i < 10; i++) {
        CHECK(comes_about(&admitted));
        CHECK_EQ(mallctl(name, NULL, NULL, &bytes, sizeof bytes), 0);
        CHECK_EQ(ctl_u64(name), 100);
        CHECK(comes_about(&refused));
        unsigned before = admitted;
        CHECK(comes_about(&refused));
        CHECK(admitted <= before + 4); /* allocations that had begun before */
        CHECK_EQ(mallctl(name, NULL, NULL, &none, sizeof none), 0);
    }
    stop = true;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(ctl_u64("spans.stats.limits"), 0);
    ctl_await_identity("set live");
}

/* Bytes that are freed while a limit is exceeded make no room, in it or below it. */
static void what_is_over_only_goes_down(void)
{
    open_limited(10 * MIB);
    CHECK_EQ(jespan_enter(span), 0);
    void *most = malloc(500 * KIB), *big = malloc(100 * KIB);
    CHECK(most && big);
    CHECK_EQ(jespan_set_limit(context, 0, 200 * KIB), 0);
    free(big);
    CHECK(!(kept = malloc(100 * KIB)));
    CHECK_EQ(jespan_set_limit(context, 0, 10 * MIB), 0);

    jespan_span_t *request = jespan_open(&request_site, JESPAN_CURRENT, NULL, 0);
    CHECK_EQ(jespan_enter(request), 0);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 5 * MIB), 0);
    void *small = malloc(10 * KIB);
    CHECK_EQ(jespan_set_limit(context, 0, 200 * KIB), 0);
    CHECK(small && !malloc(1));
    free(small);
    CHECK(!(kept = malloc(10 * KIB)));
    free(most);
    CHECK((kept = malloc(10 * KIB)));
    free(kept);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 0), 0);
    CHECK_EQ(jespan_exit(request), 0);
    CHECK_EQ(jespan_close(request), 0);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_set_limit(context, 0, 0), 0);
    CHECK_EQ(jespan_close(span), 0);
}

/* ---- on_limit, and the rest ---- */

static void only_an_event(void)
{
    open_limited(1000);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK((kept = malloc(MIB)));
    free(kept);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(ctl_span(context, "limit_refusals"), 1);
}

static _Atomic unsigned events;

static void count_event(const struct jespan_limit_event *event, void *user)
{
    CHECK_EQ(event->context, context);
    CHECK_EQ(event->kind, JESPAN_LIMIT_HARD);
    CHECK(!strcmp(event->path, "tenant{n=0}"));
    CHECK(!user);
    free(malloc(100)); /* a callback may call all of this */
    CHECK_EQ(jespan_set_limit(context, 0, 2000), 0);
    CHECK_EQ(jespan_set_limit_callback(NULL, NULL), EDEADLK);
    events++;
}

static void a_callback_is_told(void)
{
    CHECK_EQ(jespan_set_limit_callback(count_event, NULL), 0);
    only_an_event();
    for (int i = 0; i < 600000 && !events; i++)
        usleep(1000);
    CHECK_EQ(events, 1);
    CHECK_EQ(ctl_span(context, "limit_hard"), 2000);
    CHECK_EQ(jespan_set_limit_callback(NULL, NULL), 0);
}

/* In a child, which has the limits of its parent, because a case must not write to stderr. */
static void abort_names_the_limit(void)
{
    int output[2];
    char text[512] = "";
    int status;
    open_limited(5000);
    CHECK_EQ(pipe(output), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(output[1], STDERR_FILENO);
        jespan_enter(span);
        kept = malloc(4000);
        kept = malloc(4000);
        _exit(0);
    }
    close(output[1]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(read(output[0], text, sizeof text - 1) > 0);
    CHECK(!strcmp(text, "jespan: limit of tenant{n=0} reached: 4096 of 5000 bytes in use, 4096 more wanted\n"));
}

static void a_child_has_the_limits(void)
{
    open_limited(MIB);
    CHECK_EQ(jespan_enter(span), 0);
    void *p = malloc(600 * KIB);
    pid_t pid = fork();
    if (!pid) {
        kept = malloc(600 * KIB);
        bool was_refused = !kept;
        free(p);
        kept = malloc(600 * KIB);
        _exit(was_refused && kept && ctl_span(context, "limit_refusals") == 1 ? 0 : 1);
    }
    CHECK_CHILD(pid);
    CHECK_EQ(ctl_span(context, "limit_refusals"), 0);
    free(p);
    CHECK_EQ(jespan_exit(span), 0);
}

static void names_of_mallctl(void)
{
    char name[64];
    uint64_t value = 5, ignored;
    size_t size = sizeof ignored;
    span = open_tenant(0, &context);
    CHECK_EQ(ctl_span(context, "limit_soft"), 0);
    CHECK_EQ(ctl_span(context, "limit_hard"), 0);
    ctl_span_name(name, sizeof name, context, "limit_inuse_bytes");
    CHECK_EQ(mallctl(name, &ignored, &size, NULL, 0), ENOENT);
    CHECK_EQ(jespan_set_limit(context, 1 << 20, 1 << 21), 0);
    CHECK_EQ(ctl_span(context, "limit_soft"), 1 << 20);
    CHECK_EQ(ctl_span(context, "limit_hard"), 1 << 21);
    CHECK_EQ(ctl_u64(name), 0);
    CHECK_EQ(mallctl(name, NULL, NULL, &value, sizeof value), EPERM);
    ctl_span_name(name, sizeof name, context, "limit_soft");
    CHECK_EQ(mallctl(name, NULL, NULL, &value, 4), EINVAL);
    const uint64_t above_hard = ((uint64_t)1 << 21) + 1;
    CHECK_EQ(mallctl(name, NULL, NULL, (void *)&above_hard, sizeof above_hard), EINVAL);
    CHECK_EQ(ctl_span(context, "limit_soft"), 1 << 20);
    CHECK_EQ(mallctl(name, &ignored, &size, &value, sizeof value), 0);
    CHECK_EQ(ignored, 1 << 20);
    CHECK_EQ(ctl_span(context, "limit_soft"), 5);
    CHECK_EQ(ctl_span(context, "limit_hard"), 1 << 21);
    CHECK_EQ(mallctl("spans.2.limit_hard", NULL, NULL, &value, sizeof value), EINVAL);
    CHECK_EQ(mallctl("spans.77777.limit_hard", NULL, NULL, &value, sizeof value), ENOENT);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_rogue_of_100", one_rogue_of_100, NULL, NULL},
        {"one_rogue_of_100_configured", one_rogue_of_100_configured, NULL, "limit:tenant{n=*}=1M"},
        {"every_form_is_refused", every_form_is_refused, NULL, NULL},
        {"all_sizes_fit", all_sizes_fit, NULL, NULL},
        {"all_sizes_fit, in periods", all_sizes_fit, NULL, "age_period_s:1"},
        {"a_free_makes_room", a_free_makes_room, NULL, NULL},
        {"frees_of_several_owners", frees_of_several_owners, NULL, NULL},
        {"frees_of_several_owners, in arenas", frees_of_several_owners, NULL, "arena:tenant"},
        {"moves_must_fit", moves_must_fit, NULL, NULL},
        {"nothing_is_over", nothing_is_over, NULL, NULL},
        {"a_limit_set_live", a_limit_set_live, NULL, NULL},
        {"what_is_over_only_goes_down", what_is_over_only_goes_down, NULL, NULL},
        {"a_server_resizes_what_is_a_tenants", a_server_resizes_what_is_a_tenants, NULL, NULL},
        {"a_resized_object_goes_where_there_is_room", a_resized_object_goes_where_there_is_room, NULL, NULL},
        {"a_resize_leaves_no_gap", a_resize_leaves_no_gap, NULL, NULL},
        {"nobody_is_refused_falsely", nobody_is_refused_falsely, NULL, NULL},
        {"nobody_is_killed_falsely", nobody_is_refused_falsely, NULL, "on_limit:abort"},
        {"a_callback_is_told", a_callback_is_told, NULL, "on_limit:event"},
        {"abort_names_the_limit", abort_names_the_limit, NULL, "on_limit:abort"},
        {"a_child_has_the_limits", a_child_has_the_limits, NULL, NULL},
        {"names_of_mallctl", names_of_mallctl, NULL, NULL},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
