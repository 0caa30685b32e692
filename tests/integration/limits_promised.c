/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of docs/limits.md that no other test checks. The document's last section says which test checks which
 * promise. */
#define _GNU_SOURCE
#include <jespan/limit.h>

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/entered.h"
#include "../support/family.h"

enum { KIB = 1024, MIB = 1024 * KIB };

JESPAN_SITE(server_site, "server");
JESPAN_SITE(tenant_site, "tenant");
JESPAN_SITE(parse_site, "parse");
JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(region_site, "region", JESPAN_ARENA_REGION);

/* Uses the object, since a compiler may leave out the allocation of an unused one. */
static void *volatile kept;

static jespan_span_t *open_below(jespan_context_t parent, const struct jespan_site *site, jespan_context_t *context)
{
    jespan_span_t *span = jespan_open(site, parent, NULL, 0);
    CHECK(span != NULL);
    CHECK_EQ(jespan_enter(span), 0);
    *context = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return span;
}

static jespan_span_t *open_tenant(int number, jespan_context_t *context)
{
    const struct jespan_label label = JESPAN_LABEL_INT("n", number);
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &label, 1);
    CHECK(span != NULL);
    CHECK_EQ(jespan_enter(span), 0);
    *context = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return span;
}

/* ---- The document's examples ---- */

static int take_300(const char *name)
{
    int n = 0;
    JESPAN("tenant", "name", name);
    errno = 0;
    for (int i = 0; i < 300; i++)
        n += (kept = malloc(100000)) != NULL;
    CHECK_EQ(errno, n < 300 ? ENOMEM : 0);
    return n;
}

static void the_two_tenants(void)
{
    CHECK_EQ(take_300("acme"), 146);
    CHECK_EQ(take_300("globex"), 300);
    CHECK_EQ(take_300("acme"), 0);
}

struct request {
    jespan_span_t *span;
    size_t bytes;
};

static void *allocate_for(void *request)
{
    struct request *r = request;
    CHECK_EQ(jespan_enter(r->span), 0);
    void *p = malloc(r->bytes);
    CHECK_EQ(jespan_exit(r->span), 0);
    return p;
}

/* Now and then on another thread. */
static bool gets(jespan_span_t *span, size_t bytes)
{
    static int n;
    pthread_t thread;
    struct request request = {span, bytes};
    void *p = NULL;
    if (n++ % 2)
        return allocate_for(&request) != NULL;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_for, &request), 0);
    CHECK_EQ(pthread_join(thread, &p), 0);
    return p != NULL;
}

/* An allocation counts for each limit above its context, and each limit must admit it. */
static void the_tree(void)
{
    jespan_context_t server, acme, parse, globex, cache;
    jespan_span_t *of_server = open_below(JESPAN_ROOT, &server_site, &server), *of_acme = open_below(server, &tenant_site, &acme),
                  *of_parse = open_below(acme, &parse_site, &parse), *of_globex = open_tenant(7, &globex),
                  *of_cache = open_below(server, &cache_site, &cache);
    CHECK_EQ(jespan_set_limit(server, 0, 256 * MIB) + jespan_set_limit(acme, 0, 16 * MIB) + jespan_set_limit(globex, 0, 64 * MIB), 0);
    CHECK(gets(of_parse, 9 * MIB - 100) && gets(of_acme, 6 * MIB - 100));
    for (int i = 0; i < 4; i++)
        CHECK(!gets(i % 2 ? of_parse : of_acme, 2 * MIB));
    CHECK(ctl_span(server, "limit_inuse_bytes") >= 15 * MIB - 200);
    CHECK(gets(of_globex, 40 * MIB - 100) && gets(of_cache, 144 * MIB - 100));
    CHECK_EQ(ctl_span(acme, "limit_refusals"), 4);
    uint64_t inuse = ctl_span(server, "limit_inuse_bytes");
    CHECK(inuse <= 256 * MIB);
    CHECK(!gets(of_cache, 256 * MIB - inuse + 1) && !gets(of_server, 256 * MIB - inuse + 1));
    CHECK(gets(of_globex, 10 * MIB));
    CHECK_EQ(ctl_span(server, "limit_refusals"), 2);
}

/* limit:thread:*=4M: what a thread allocates outside spans, and nothing else. */
static void threads_have_limits(void)
{
    jespan_context_t context;
    jespan_span_t *of_tenant = open_tenant(1, &context);
    CHECK((kept = malloc(5 * MIB)) == NULL && errno == ENOMEM);
    CHECK((kept = malloc(2 * MIB)) != NULL);
    free(kept);
    CHECK(gets(of_tenant, 5 * MIB));
}

/* All allocations of a thread in the context count. */
static void *nothing(void *unused)
{
    return unused;
}

static void what_libraries_do_counts(void)
{
    pthread_t thread;
    JESPAN("tenant");
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 1), 0);
    CHECK(pthread_create(&thread, NULL, nothing, NULL) != 0);
    CHECK(dlopen("libanl.so.1", RTLD_NOW) == NULL);
    CHECK(fopen("/dev/null", "r") == NULL && errno == ENOMEM);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, nothing, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(dlopen("libanl.so.1", RTLD_NOW) != NULL);
}

/* ---- Refusals ---- */

static const char *const figures[] = {"alloc_objects",       "alloc_bytes",       "free_objects",       "free_bytes",
                                      "inuse_objects",       "inuse_bytes",       "credited_in_objects",   "credited_in_bytes",
                                      "credited_out_objects",   "credited_out_bytes",   "alloc_requested_bytes", "limit_inuse_bytes",
                                      "total.alloc_objects", "total.inuse_bytes", "limit_hard",         "limit_soft"};
enum { FIGURES = sizeof figures / sizeof *figures };

struct figures {
    uint64_t of_context[FIGURES], all_objects, all_bytes, refusals;
};

static struct figures read_figures(jespan_context_t context)
{
    struct figures f;
    for (int i = 0; i < FIGURES; i++)
        f.of_context[i] = ctl_span(context, figures[i]);
    f.all_objects = ctl_u64("spans.all.inuse_objects");
    f.all_bytes = ctl_u64("spans.all.inuse_bytes");
    f.refusals = ctl_span(context, "limit_refusals");
    return f;
}

/* Only the number of refusals has changed. */
static void check_unchanged(struct figures before, jespan_context_t context, uint64_t refusals, const char *how)
{
    struct figures now = read_figures(context);
    for (int i = 0; i < FIGURES; i++)
        if (now.of_context[i] != before.of_context[i])
            check_fail("%s: %s is %llu, not %llu", how, figures[i], (unsigned long long)now.of_context[i],
                       (unsigned long long)before.of_context[i]);
    if (now.refusals != before.refusals + refusals || now.all_objects != before.all_objects || now.all_bytes != before.all_bytes)
        check_fail("%s: refusals %llu, not %llu; all objects %llu, not %llu; bytes %llu, not %llu", how,
                   (unsigned long long)now.refusals, (unsigned long long)(before.refusals + refusals),
                   (unsigned long long)now.all_objects, (unsigned long long)before.all_objects, (unsigned long long)now.all_bytes,
                   (unsigned long long)before.all_bytes);
    ctl_check_identity(how);
}

enum { WAYS = 12 };
static bool is_refused(int way, size_t n, void *volatile object)
{
    void *p = NULL;
    errno = 0;
    switch (way) {
    case 0: p = malloc(n); break;
    case 1: p = calloc(1, n); break;
    case 2: p = realloc(NULL, n); break;
    case 3: p = reallocarray(NULL, 1, n); break;
    case 4: p = aligned_alloc(16, n); break;
    case 5: p = memalign(64, n); break;
    case 6: return posix_memalign(&p, 64, n) == ENOMEM && !p && !errno;
    case 7: p = F(mallocx)(n, 0); break;
    case 8: p = F(mallocx)(n, FLAG_ZERO | FLAG_ALIGN(64)); break;
    case 9: p = F(rallocx)(object, n + 4000, 0); break;
    case 10: return F(xallocx)(object, n + 4000, 0, 0) == 64; /* jemalloc or the limit forbids it */
    default: p = realloc(object, n + 4000);
    }
    return !p && errno == ENOMEM;
}

/* At the limit, each function refuses each size once and changes nothing, also if the thread's magazine has objects of
 * that size. */
static void check_each_refusal(const struct jespan_site *site)
{
    static const size_t sizes[] = {1, 64, 500, 2000, 5000, 20000, 300000};
    char how[64];
    jespan_span_t *span = enter_new(site);
    jespan_context_t context = jespan_current();
    CHECK_EQ(jespan_set_limit(context, 0, 10 * MIB), 0);
    unsigned char *object = memset(malloc(64), 0x5a, 64);
    for (int i = 0; i < 7; i++) {
        void *objects[40];
        for (int k = 0; k < 40; k++)
            CHECK((objects[k] = malloc(sizes[i] < 30000 ? sizes[i] : 100)) != NULL);
        for (int k = 0; k < 40; k++)
            free(objects[k]);
        CHECK_EQ(jespan_set_limit(context, 0, ctl_span(context, "limit_inuse_bytes")), 0);
        for (int way = 0; way < WAYS; way++)
            for (int k = 0; k < 3; k++) {
                snprintf(how, sizeof how, "%s, way %d, %zu bytes", site->name, way, sizes[i]);
                struct figures before = read_figures(context);
                if (!is_refused(way, sizes[i], object))
                    check_fail("%s: not refused", how);
                check_unchanged(before, context, way != 10 || ctl_span(context, "limit_refusals") != before.refusals, how);
            }
        CHECK_EQ(jespan_set_limit(context, 0, 10 * MIB), 0);
    }
    for (int i = 0; i < 64; i++)
        CHECK_EQ(object[i], 0x5a);
    free(object);
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), ctl_span(context, "limit_refusals"));
    CHECK_EQ(jespan_set_limit(context, 0, 0), 0);
    leave(span);
}

static void a_refusal_changes_nothing(void)
{
    check_each_refusal(&tenant_site);
}

static void a_refusal_changes_nothing_in_an_arena(void)
{
    check_each_refusal(&cache_site);
}

static void a_refusal_changes_nothing_in_a_region(void)
{
    check_each_refusal(&region_site);
}

static void a_refused_move_changes_nothing(void)
{
    jespan_context_t from, to;
    jespan_span_t *of_from = open_tenant(1, &from), *of_to = open_tenant(2, &to);
    CHECK_EQ(jespan_set_limit(from, 0, MIB) + jespan_set_limit(to, 0, 1000), 0);
    CHECK_EQ(jespan_enter(of_from), 0);
    void *p = malloc(2000);
    CHECK_EQ(jespan_exit(of_from), 0);
    struct figures before_from = read_figures(from), before_to = read_figures(to);
    errno = 77;
    CHECK_EQ(jespan_credit(p, to), ENOMEM);
    CHECK_EQ(errno, 77);
    check_unchanged(before_from, from, 0, "from");
    check_unchanged(before_to, to, 1, "to");
    free(p);
    CHECK_EQ(jespan_close(of_to) + jespan_close(of_from), 0);
}

/* ---- Resizing ---- */

/* If the object must move, there must be room for both copies, also for a smaller size. */
static void a_move_needs_room_for_both(void)
{
    JESPAN("tenant");
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 3071), 0);
    char *volatile p = memset(malloc(2048), 7, 2048);
    CHECK(realloc(p, 1000) == NULL && errno == ENOMEM);
    CHECK(p[2047] == 7);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 3072), 0);
    CHECK((p = realloc(p, 1000)) != NULL);
    CHECK(p[999] == 7);
    CHECK_EQ(ctl_span(jespan_current(), "limit_inuse_bytes"), 1024);
    free(p);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 0), 0);
}

/* Whether the large object could grow in place, which jemalloc decides. */
static bool grows_in_place(uint64_t hard, size_t to)
{
    jespan_context_t owner;
    jespan_span_t *span = open_tenant(1, &owner);
    CHECK_EQ(jespan_set_limit(owner, 0, 0), 0);
    CHECK_EQ(jespan_enter(span), 0);
    void *whole = malloc(7 * MIB); /* its place has room for both */
    free(whole);
    char *p = malloc(3 * MIB);
    CHECK_EQ(jespan_set_limit(owner, 0, hard), 0);
    CHECK_EQ(jespan_exit(span), 0);
    size_t now = F(xallocx)(p, to, 0, 0); /* in another context, which has no limit */
    CHECK_EQ(now, F(sallocx)(p, 0));
    CHECK(ctl_span(owner, "limit_inuse_bytes") <= hard);
    free(p);
    CHECK_EQ(ctl_span(owner, "limit_inuse_bytes"), 0);
    CHECK_EQ(jespan_close(span), 0);
    return now >= to;
}

/* The same by realloc, and by the owner. If the object cannot grow in place, there is no room to move it. */
static bool reallocs_in_place(uint64_t hard, size_t to)
{
    jespan_context_t owner;
    jespan_span_t *span = open_tenant(1, &owner);
    CHECK_EQ(jespan_set_limit(owner, 0, 0), 0);
    CHECK_EQ(jespan_enter(span), 0);
    void *whole = malloc(7 * MIB);
    free(whole);
    char *p = malloc(3 * MIB);
    CHECK_EQ(jespan_set_limit(owner, 0, hard), 0);
    char *q = realloc(p, to);
    CHECK(ctl_span(owner, "limit_inuse_bytes") <= hard);
    free(q ? q : p);
    CHECK_EQ(ctl_span(owner, "limit_inuse_bytes"), 0);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    return q != NULL;
}

/* Growth in place needs room for the added bytes below the limits of the object's owner. */
static void growth_in_place_needs_what_is_added(void)
{
    bool fits = false, fits_too = false;
    for (int i = 0; i < 20 && !(fits && fits_too); i++) {
        fits |= grows_in_place(5 * MIB, 5 * MIB);
        fits_too |= reallocs_in_place(5 * MIB, 5 * MIB);
    }
    CHECK(fits);
    CHECK(fits_too);
    for (int i = 0; i < 20; i++) {
        CHECK(!grows_in_place(5 * MIB - 1, 5 * MIB));
        CHECK(!reallocs_in_place(5 * MIB - 1, 5 * MIB));
    }
}

/* If the owner's limits refuse, and they are not the caller's, the object moves. */
static void growth_by_another_moves(void)
{
    jespan_context_t owner, server;
    jespan_span_t *of_owner = open_tenant(1, &owner), *of_server = open_tenant(2, &server);
    CHECK_EQ(jespan_set_limit(owner, 0, 3 * MIB) + jespan_set_limit(server, 0, 64 * MIB), 0);
    CHECK_EQ(jespan_enter(of_owner), 0);
    char *volatile p = memset(malloc(3 * MIB), 7, 3 * MIB);
    CHECK_EQ(jespan_exit(of_owner), 0);
    CHECK_EQ(jespan_enter(of_server), 0);
    CHECK((p = realloc(p, 5 * MIB)) != NULL && p[3 * MIB - 1] == 7);
    CHECK_EQ(ctl_span(owner, "limit_inuse_bytes"), 0);
    CHECK_EQ(ctl_span(server, "limit_inuse_bytes"), 5 * MIB);
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), 0);
    free(p);
    CHECK_EQ(jespan_exit(of_server), 0);
}

/* ---- Many threads ---- */

enum { RAMP = 200 };
static pthread_barrier_t barrier;
static jespan_span_t *common;
static atomic_ullong taken;

static void *take_what_there_is(void *unused)
{
    CHECK_EQ(jespan_enter(common), 0);
    pthread_barrier_wait(&barrier);
    for (int refused = 0; refused < 20;) {
        void *p = malloc(100);
        if (p)
            taken += malloc_usable_size(p);
        else
            refused++;
    }
    CHECK_EQ(jespan_exit(common), 0);
    return unused;
}

/* New threads get nearly all bytes of the limit, and not one byte more. */
static void nothing_is_over_as_threads_come(void)
{
    static pthread_t threads[RAMP];
    jespan_context_t context;
    common = open_tenant(0, &context);
    CHECK_EQ(jespan_set_limit(context, 0, MIB), 0);
    pthread_barrier_init(&barrier, NULL, RAMP);
    for (int i = 0; i < RAMP; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_what_there_is, NULL), 0);
    for (int i = 0; i < RAMP; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(taken <= MIB && taken > MIB - 112);
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), taken);
    CHECK_EQ(ctl_span(context, "limit_refusals"), RAMP * 20);
}

/* ---- What is told ---- */

static int heard[2] = {-1, -1}, former_stderr;

static void hear(void)
{
    CHECK_EQ(pipe(heard), 0);
    former_stderr = dup(STDERR_FILENO);
    dup2(heard[1], STDERR_FILENO);
}

static void hear_no_more(void)
{
    dup2(former_stderr, STDERR_FILENO);
}

/* Waits for the next line on stderr, and returns it. */
static const char *next_line(void)
{
    static char line[512];
    size_t n = 0;
    while (n + 1 < sizeof line && read(heard[0], line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return line;
}

/* on_limit:event, without a callback: a line for the soft limit, and one for the hard one, which refuses nothing. On a slow machine, its
 * refusals are said in several lines. */
static void lines_are_said(void)
{
    const unsigned long long refused = 300 - 16 * MIB / 114688;
    unsigned long long soft_inuse = 0, hard_inuse = 0, more = 0, refusals = 0;
    hear();
    JESPAN("tenant", "name", "acme");
    for (int i = 0; i < 300; i++)
        CHECK((kept = malloc(100000)) != NULL);
    while (!soft_inuse || refusals < refused) {
        const char *line = next_line();
        more = 0;
        if (sscanf(line, "jespan: soft limit of tenant{name=acme} crossed: %llu of 8388608 bytes in use", &soft_inuse) == 1)
            continue;
        CHECK_EQ(sscanf(line, "jespan: limit of tenant{name=acme} reached: %llu of 16777216 bytes in use, refusals: %llu",
                        &hard_inuse, &more), 2);
        refusals += more;
        if (!more)
            break;
    }
    hear_no_more();
    CHECK(soft_inuse > 8 * MIB && soft_inuse <= 300 * 114688);
    CHECK(hard_inuse > 16 * MIB - 114688 && hard_inuse <= 300 * 114688);
    CHECK_EQ(refusals, refused);
}

/* on_limit:fail says nothing of the hard limit. */
static void only_soft_limits_are_said(void)
{
    static const char *const names[] = {"acme", "globex"};
    char begin[96];
    hear();
    for (int i = 0; i < 2; i++) {
        JESPAN("tenant", "name", names[i]);
        for (int k = 0; k < 3; k++)
            CHECK((kept = malloc(17 * MIB)) == NULL && errno == ENOMEM);
        CHECK((kept = malloc(9 * MIB)) != NULL);
        snprintf(begin, sizeof begin, "jespan: soft limit of tenant{name=%s} crossed: ", names[i]);
        CHECK(!strncmp(next_line(), begin, strlen(begin)));
        free(kept);
        snprintf(begin, sizeof begin, "jespan: soft limit of tenant{name=%s} no longer crossed: ", names[i]);
        CHECK(!strncmp(next_line(), begin, strlen(begin)));
    }
    hear_no_more();
}

/* max_limits:2. Further contexts have no limit, and one line says so. */
static void limits_run_out(void)
{
    jespan_context_t context;
    hear();
    for (int i = 0; i < 5; i++) {
        jespan_span_t *span = open_tenant(i, &context);
        CHECK_EQ(jespan_enter(span), 0);
        CHECK_EQ((kept = malloc(2 * MIB)) == NULL, i < 2);
        free(kept);
        CHECK_EQ(jespan_exit(span), 0);
    }
    CHECK_EQ(ctl_u64("spans.stats.limits_lost"), 3);
    CHECK_EQ(ctl_u64("spans.stats.limits"), 2);
    hear_no_more();
    close(heard[1]);
    CHECK(strstr(next_line(), "max_limits"));
    CHECK(!*next_line());
}

/* ---- The callback ---- */

enum { EVENTS = 64 };
static struct jespan_limit_event events[EVENTS];
static atomic_int n_events;
static char kind_of_callback[16];
static pthread_t callback_thread;

static void note_event(const struct jespan_limit_event *event, void *unused)
{
    (void)unused;
    callback_thread = pthread_self();
    snprintf(kind_of_callback, sizeof kind_of_callback, "%s", ctl_span_text(jespan_current(), "kind"));
    free(malloc(100));
    if (n_events < EVENTS) {
        events[n_events] = *event;
        n_events++;
    }
}

static void await_events(int n)
{
    while (n_events < n)
        usleep(1000);
}

static bool fails_to_take(jespan_span_t *span, size_t bytes)
{
    CHECK_EQ(jespan_enter(span), 0);
    kept = malloc(bytes);
    CHECK_EQ(jespan_exit(span), 0);
    return !kept;
}

/* On a thread of jespan's own: its allocations belong to "(jespan)". */
static void a_callback_has_a_thread(void)
{
    jespan_context_t context;
    jespan_span_t *span = open_tenant(1, &context);
    CHECK_EQ(jespan_set_limit_callback(note_event, NULL), 0);
    CHECK_EQ(jespan_set_limit(context, 0, 1000), 0);
    CHECK(fails_to_take(span, 2000));
    await_events(1);
    CHECK(!pthread_equal(callback_thread, pthread_self()));
    CHECK(!strcmp(kind_of_callback, "jespan"));
    CHECK_EQ(events[0].refusals, 1);
    CHECK_EQ(jespan_set_limit_callback(NULL, NULL), 0);
    CHECK_EQ(jespan_set_limit(context, 0, 0), 0);
    CHECK_EQ(jespan_close(span), 0);
}

static int events_of(jespan_context_t context)
{
    int n = 0;
    for (int i = 0; i < n_events; i++)
        n += events[i].context == context && events[i].kind == JESPAN_LIMIT_HARD;
    return n;
}

static void await_events_of(jespan_context_t context, int n)
{
    while (events_of(context) < n)
        usleep(1000);
}

/* Refusals of a hard limit are not reported after that limit was removed, even if a soft limit is left. Another
 * limit shows when the report was due. */
static void a_limit_that_is_gone_is_not_told(void)
{
    jespan_context_t gone, stays;
    jespan_span_t *of_gone = open_tenant(1, &gone), *of_stays = open_tenant(2, &stays);
    CHECK_EQ(jespan_set_limit_callback(note_event, NULL), 0);
    CHECK_EQ(jespan_set_limit(gone, 500, 1000) + jespan_set_limit(stays, 0, 1000), 0);
    CHECK(fails_to_take(of_gone, 2000));
    await_events_of(gone, 1); /* at once; the next ones a second later */
    CHECK(fails_to_take(of_gone, 2000));
    CHECK_EQ(jespan_set_limit(gone, 500, 0), 0);
    CHECK(fails_to_take(of_stays, 2000));
    await_events_of(stays, 1);
    CHECK(fails_to_take(of_stays, 2000));
    await_events_of(stays, 2);
    CHECK_EQ(events_of(gone), 1);
    for (int i = 0; i < n_events; i++)
        CHECK(events[i].limit_bytes > 0);
    CHECK_EQ(jespan_set_limit(gone, 0, 2000), 0); /* a limit that is set again reports its own refusals */
    CHECK(fails_to_take(of_gone, 3000));
    await_events_of(gone, 2);
    CHECK_EQ(events[n_events - 1].limit_bytes, 2000);
    CHECK_EQ(jespan_set_limit_callback(NULL, NULL), 0);
}

/* ---- Children ---- */

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (const struct dirent *task; (task = readdir(tasks));)
        n += task->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* A child has the thread that reports events only with follow_fork. */
static void a_child_tells(bool follows)
{
    jespan_context_t context;
    jespan_span_t *span = open_tenant(1, &context);
    CHECK_EQ(jespan_set_limit_callback(note_event, NULL), 0);
    CHECK_EQ(jespan_set_limit(context, 1000, 1 << 20), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_refused = fails_to_take(span, 2 << 20);
        void *p = fails_to_take(span, 2000) ? NULL : kept;
        if (follows)
            await_events(1);
        else
            CHECK_EQ(count_threads(), 1);
        CHECK(is_refused && p);
        _exit(check_failures != 0);
    }
    CHECK_CHILD(pid);
    CHECK_EQ(n_events, 0);
}

static void a_child_tells_nothing(void)
{
    a_child_tells(false);
}

static void a_child_that_follows_tells(void)
{
    a_child_tells(true);
}

/* The number of a recycled context may now be a period's, and a period is not a context. */
static bool is_shown(uint32_t id, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static void a_period_has_no_limit(void)
{
    enum { NUMBERS = 64, UNSAMPLED = 3 };
    uint32_t ids[NUMBERS];
    uint64_t any = 1;
    size_t bytes = sizeof ids, ages = 0;
    char name[64];
    jespan_context_t context;
    jespan_span_t *span = open_tenant(1, &context);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK((kept = malloc(100)) != NULL);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, MIB), 0);
    CHECK_EQ(ctl_span(context, "limit_hard"), MIB);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 0), 0);
    CHECK_EQ(mallctl("spans.epoch", NULL, NULL, &any, sizeof any), 0);
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, context, "ages"), NULL, &ages, NULL, 0), 0);
    CHECK(ages > 0);
    CHECK(is_shown(context, ids, bytes / sizeof *ids));
    for (uint32_t id = UNSAMPLED + 1; id < NUMBERS; id++) {
        if (is_shown(id, ids, bytes / sizeof *ids))
            continue;
        CHECK_EQ(jespan_set_limit(id, 0, MIB), EINVAL);
        CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, id, "limit_hard"), &any, &(size_t){sizeof any}, NULL, 0), ENOENT);
    }
    CHECK_EQ(ctl_u64("spans.stats.limits"), 0);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
}

static const struct test_case cases[] = {
    {"the_two_tenants", the_two_tenants, NULL, "limit:tenant{name=acme}=16M|tenant=64M"},
    {"the_tree", the_tree, NULL, NULL},
    {"threads_have_limits", threads_have_limits, NULL, "limit:thread:*=4M"},
    {"what_libraries_do_counts", what_libraries_do_counts, NULL, NULL},
    {"a_refusal_changes_nothing", a_refusal_changes_nothing, NULL, NULL},
    {"a_refusal_changes_nothing, with periods", a_refusal_changes_nothing, NULL, "age_period_s:1"},
    {"a_period_has_no_limit", a_period_has_no_limit, NULL, "age_period_s:1000"},
    {"a_refusal_changes_nothing_in_an_arena", a_refusal_changes_nothing_in_an_arena, NULL, NULL},
    {"a_refusal_changes_nothing_in_a_region", a_refusal_changes_nothing_in_a_region, NULL, NULL},
    {"a_refused_move_changes_nothing", a_refused_move_changes_nothing, NULL, NULL},
    {"a_move_needs_room_for_both", a_move_needs_room_for_both, NULL, NULL},
    {"growth_in_place_needs_what_is_added", growth_in_place_needs_what_is_added, "narenas:1", NULL},
    {"growth_by_another_moves", growth_by_another_moves, NULL, NULL},
    {"nothing_is_over_as_threads_come", nothing_is_over_as_threads_come, NULL, NULL},
    {"lines_are_said", lines_are_said, NULL, "limit:tenant{name=acme}=8M/16M,on_limit:event,limit_interval_ms:10"},
    {"only_soft_limits_are_said", only_soft_limits_are_said, NULL, "limit:tenant=8M/16M,limit_interval_ms:10"},
    {"limits_run_out", limits_run_out, NULL, "limit:tenant=1M,max_limits:2"},
    {"a_callback_has_a_thread", a_callback_has_a_thread, NULL, NULL},
    {"a_limit_that_is_gone_is_not_told", a_limit_that_is_gone_is_not_told, NULL, NULL},
    {"a_child_tells_nothing", a_child_tells_nothing, NULL, NULL},
    {"a_child_that_follows_tells", a_child_that_follows_tells, NULL, "follow_fork:true,limit_interval_ms:10"},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
