/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `pyroscope`: pushes the figures of each period to a Pyroscope server.
 *
 * One thread runs one loop. A period ends and joins the queue. The first period of the queue is sent, and the answer
 * decides what happens to it. The loop sleeps only in pyroscope_sender_wait(), so periods end in time whatever the
 * server does. After a failure nothing is sent for a time that doubles with each further failure. Jitter keeps the
 * processes of a fleet from coming back at once.
 *
 * A server accepts or refuses each profile of a request. Its answer names the refused ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "digest.h"
#include "period.h"
#include "pyroscope_profile.h"
#include "pyroscope_queue.h"
#include "pyroscope_request.h"
#include "pyroscope_send.h"
#include "pyroscope_target.h"
#include "random.h"
#include "report/service.h"

SERVICE_DEFINE(pyroscope);

#define SLOW_PUSHES 3 /* after so many consecutive ones, periods are merged */
#define MAX_MESSAGES 3
#define REPEAT_NS ((uint64_t)600000000000)
#define MIN_SAMPLES 100 /* profiles are not made smaller than this */
#define FIRST_BACKOFF_NS ((uint64_t)500000000)
#define MAX_BACKOFF_NS ((uint64_t)60000000000)
#define STOP_MARGIN_NS ((uint64_t)50000000) /* between the end of the loop and the end of the thread */

#define ms_to_ns(ms) ((ms) * (uint64_t)1000000)

struct pusher {
    const struct service_host *host;
    struct pyroscope_stats *stats;
    struct digest_shape shape;
    struct label_names names;
    struct pyroscope_source source;
    struct pyroscope_sender sender;
    struct pyroscope_queue queue;
    struct period *period;
    struct snapshot *snapshot; /* the next snapshot reuses its memory */
    uint32_t last_nodes;       /* number of nodes of the last digest before folding */
    uint64_t period_from_unix_ns;
    uint64_t next_period_ns;    /* this and the following times are on CLOCK_MONOTONIC */
    uint64_t first_inuse_ns, next_inuse_ns; /* when memory in use is reported, first and next */
    uint64_t not_before_ns;     /* nothing is sent until then */
    uint64_t backoff_ns;        /* 0: the last attempt succeeded */
    uint64_t stop_by_ns;        /* 0: the program goes on */
    unsigned slow;              /* number of consecutive pushes that took longer than a period */
    size_t max_samples;
    size_t max_samples_before;  /* before they were halved on suspicion. 0: they were not */
    struct sending {
        bool profiles[PYROSCOPE_N_PROFILES];
        size_t profile_bytes[PYROSCOPE_N_PROFILES], bytes, samples;
    } sending;                  /* the present request */
    struct message {
        const char *error;
        uint64_t at_ns;
    } messages[MAX_MESSAGES];   /* the last ones */
    const char *last_error;     /* these four are used while the program ends */
    char last_detail[PYROSCOPE_DETAIL_BYTES];
    bool tried_again;           /* after a connection was cut */
    bool gave_up;
};

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#define SAY(p, ...) (p)->host->say((const char *const[]){"pyroscope: ", __VA_ARGS__, NULL})

/* ---- Periods ---- */

static void add(_Atomic uint64_t *stat, uint64_t n)
{
    atomic_fetch_add_explicit(stat, n, memory_order_relaxed);
}

static void update_queue_stats(struct pusher *p)
{
    atomic_store_explicit(&p->stats->queue_length, p->queue.n, memory_order_relaxed);
    atomic_store_explicit(&p->stats->queue_bytes, p->queue.bytes, memory_order_relaxed);
    atomic_store_explicit(&p->stats->merged, p->queue.merged, memory_order_relaxed);
    add(&p->stats->folded, p->queue.folded);
    p->queue.folded = 0;
}

/* Memory in use is a state, but a server sums the values of a step of a graph. So it is reported once per step. */
static bool is_inuse_due(struct pusher *p)
{
    uint64_t interval_ns = ms_to_ns(p->host->conf->pyroscope_inuse_interval_ms), now = now_ns();
    if (interval_ns == 0)
        return true;
    bool first_at_end = p->stop_by_ns != 0 && p->next_inuse_ns == p->first_inuse_ns;
    if (now < p->next_inuse_ns && !first_at_end)
        return false;
    if (now >= p->next_inuse_ns)
        p->next_inuse_ns += (1 + (now - p->next_inuse_ns) / interval_ns) * interval_ns;
    return true;
}

/* Without memory, the figures of this period are part of the next one. */
static void end_period(struct pusher *p)
{
    struct digest *digest = pyroscope_queue_reserve(&p->queue) ? digest_make(&p->shape) : NULL;
    struct snapshot *s = digest ? p->host->snapshot(p->snapshot) : NULL;
    p->snapshot = s ? s : p->snapshot;
    if (s)
        digest_reserve(digest, p->last_nodes);
    if (!s || period_next(p->period, s, digest_add, digest) != 0) {
        digest_free(digest);
        return;
    }
    uint64_t from_unix_ns = p->period_from_unix_ns != 0 ? p->period_from_unix_ns : s->start_unix_ns;
    /* The clock may have been set back, so the start may be after the end. */
    digest_set_time(digest, earlier(from_unix_ns, s->time_unix_ns), s->time_unix_ns);
    p->period_from_unix_ns = s->time_unix_ns;
    p->last_nodes = digest_nodes(digest);
    add(&p->stats->folded, digest_fold(digest, (uint32_t)p->max_samples));
    pyroscope_queue_add(&p->queue, digest, now_ns());
    p->queue.last->inuse |= is_inuse_due(p);
    pyroscope_queue_limit(&p->queue, now_ns(), p->sender.busy);
    update_queue_stats(p);
}

/* Periods that were missed because the thread did not run are skipped. */
static void end_period_if_due(struct pusher *p)
{
    uint64_t interval_ns = ms_to_ns(p->host->conf->pyroscope_interval_ms), now = now_ns();
    if (now < p->next_period_ns)
        return;
    p->next_period_ns += (1 + (now - p->next_period_ns) / interval_ns) * interval_ns;
    end_period(p);
}

/* ---- The result of a request ---- */

static const char *consequence(const struct pusher *p, const struct pyroscope_result *result)
{
    if (result->outcome == PYROSCOPE_REFUSED)
        return "; its figures go into the next push";
    if (result->may_be_there && p->host->conf->pyroscope_uncertain == PYROSCOPE_DROP)
        return "; the server may have it, so it is not tried again (pyroscope_uncertain:drop)";
    return "; it is tried again";
}

/* Whether to write the error to stderr. Each error is repeated after 10 minutes at the earliest. At most three are
 * remembered, because errors may alternate with each other and with successes. */
static bool is_new(struct pusher *p, const char *error)
{
    struct message *oldest = p->messages;
    uint64_t now = now_ns();
    for (struct message *s = p->messages; s < p->messages + MAX_MESSAGES; s++) {
        if (s->error == error && now - s->at_ns < REPEAT_NS)
            return false;
        if (!s->error || (oldest->error && s->at_ns < oldest->at_ns))
            oldest = s;
    }
    if (oldest->error && now - oldest->at_ns < REPEAT_NS)
        return false;
    *oldest = (struct message){error, now};
    return true;
}

/* While the program ends, say_loss() writes one line for all errors. */
static void say_error(struct pusher *p, const struct pyroscope_result *result)
{
    if (p->stop_by_ns != 0) {
        p->last_error = result->error;
        strcpy(p->last_detail, result->detail);
    } else if (is_new(p, result->error)) {
        SAY(p, result->error, result->detail[0] != '\0' ? ": " : "", result->detail, consequence(p, result),
            ", more errors like this are only counted for 10 minutes");
    }
}

/* Lost figures are always reported. */
static void say_loss(struct pusher *p)
{
    const struct waiting *first = p->queue.first;
    char seconds[24];
    if (!first)
        return;
    uint64_t from_ns = digest_from_unix_ns(first->digest), now = clock_ns(CLOCK_REALTIME);
    snprintf(seconds, sizeof seconds, "%llu", now > from_ns ? (unsigned long long)((now - from_ns) / 1000000000u + 1) : 1);
    const char *error = p->last_error ? p->last_error : "", *detail = p->last_error ? p->last_detail : "";
    SAY(p, error, detail[0] != '\0' ? ": " : "", detail, error[0] != '\0' ? "; " : "",
        "the program ends before all was pushed: the figures of its last ", seconds,
        p->sender.busy || first->sent ? " s may be lost" : " s are lost");
}

static void note_result(struct pusher *p, const struct pyroscope_result *result)
{
    struct pyroscope_stats *stats = p->stats;
    atomic_store_explicit(&stats->last_status, (uint64_t)result->status, memory_order_relaxed);
    atomic_store_explicit(&stats->last_latency_ns, result->latency_ns, memory_order_relaxed);
    atomic_store_explicit(&stats->last_error, result->error, memory_order_release);
    if (result->outcome == PYROSCOPE_ACCEPTED) {
        add(&stats->pushed_bytes, p->sending.bytes);
        p->slow = result->latency_ns >= ms_to_ns(p->host->conf->pyroscope_interval_ms) ? p->slow + 1 : 0;
        return;
    }
    p->slow = 0;
    add(&stats->failures, 1);
    if (result->outcome == PYROSCOPE_REFUSED)
        add(&stats->rejected, 1);
    if (result->may_be_there)
        add(&stats->uncertain, 1);
    say_error(p, result);
}

/* `accepted`: which profiles of the request the server has accepted. This changes the last statistic of a push: a
 * reader that sees it sees the others too. */
static void note_accepted(struct pusher *p, const bool accepted[PYROSCOPE_N_PROFILES])
{
    uint64_t n = 0;
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++) {
        if (!p->sending.profiles[i] || !accepted[i])
            continue;
        p->queue.first->accepted[i] = true;
        p->sending.profiles[i] = false;
        n++;
    }
    if (n == 0)
        return;
    atomic_store_explicit(&p->stats->last_success_s, (uint64_t)time(NULL), memory_order_relaxed);
    add(&p->stats->pushes, n);
}

/* ---- Partly accepted requests ---- */

static size_t count_text(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static bool is_named(const struct pusher *p, const char *answer, int profile)
{
    char text[64] = "id ";
    pyroscope_request_id(text + 3, p->queue.first, profile);
    return strstr(answer, strcat(text, " failed"));
}

/* Returns the largest profile of the request that is not refused yet, or −1. */
static int largest(const struct pusher *p, const bool refused[PYROSCOPE_N_PROFILES])
{
    int found = -1;
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++)
        if (p->sending.profiles[i] && !refused[i]
            && (found < 0 || p->sending.profile_bytes[i] > p->sending.profile_bytes[found]))
            found = i;
    return found;
}

/* For each refused profile, Pyroscope answers "push series with index N and id ID failed". For a profile that is too
 * large to be read it gives no ID; these are the largest ones. The words are from pkg/distributor/distributor.go of
 * its sources. An answer without them is about the whole request. */
static void note_partly_accepted(struct pusher *p, const struct pyroscope_result *result)
{
    bool refused[PYROSCOPE_N_PROFILES] = {false}, accepted[PYROSCOPE_N_PROFILES], any = false;
    size_t unread = count_text(result->answer, "uncompressed profile payload size exceeds limit");
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++)
        any |= refused[i] = p->sending.profiles[i] && is_named(p, result->answer, i);
    for (int i; unread > 0 && (i = largest(p, refused)) >= 0; unread--)
        any = refused[i] = true;
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++)
        accepted[i] = any && !refused[i];
    note_accepted(p, accepted);
}

/* ---- Attempts after failures ---- */

/* Waits between half of the back-off and all of it, or as long as the server asks for, if that is longer. */
static void back_off(struct pusher *p, uint64_t retry_after_s)
{
    uint64_t interval_ns = ms_to_ns(p->host->conf->pyroscope_interval_ms), jitter;
    uint64_t first = interval_ns < FIRST_BACKOFF_NS ? interval_ns : FIRST_BACKOFF_NS;
    uint64_t most = 4 * interval_ns < MAX_BACKOFF_NS ? 4 * interval_ns : MAX_BACKOFF_NS;
    random_fill(&jitter, sizeof jitter);
    p->backoff_ns = p->backoff_ns == 0 ? first : 2 * p->backoff_ns < most ? 2 * p->backoff_ns : most;
    uint64_t wait_ns = p->backoff_ns / 2 + jitter % (p->backoff_ns / 2 + 1);
    if (wait_ns < retry_after_s * 1000000000u)
        wait_ns = retry_after_s * 1000000000u;
    p->not_before_ns = now_ns() + wait_ns;
}

static void set_max_samples(struct pusher *p, size_t n)
{
    p->max_samples = n;
    p->queue.max_nodes = (uint32_t)n;
}

/* Sends fewer samples to a server whose limit is lower than the configured one. False: they are few enough already. */
static bool shrink(struct pusher *p)
{
    size_t from = p->sending.samples < p->max_samples ? p->sending.samples : p->max_samples;
    if (from <= MIN_SAMPLES)
        return false;
    set_max_samples(p, from / 2 > MIN_SAMPLES ? from / 2 : MIN_SAMPLES);
    return true;
}

/* Some servers do not say why they refuse a request, so it is tried once with half the samples. */
static bool shrink_on_suspicion(struct pusher *p)
{
    size_t before = p->max_samples;
    if (p->max_samples_before != 0) {
        set_max_samples(p, p->max_samples_before); /* the size was not the reason */
        return false;
    }
    if (!shrink(p))
        return false;
    p->max_samples_before = before;
    return true;
}

/* A request that is refused for its size is sent again at once, smaller and under another ID. */
static void act_on_refusal(struct pusher *p, const struct pyroscope_result *result)
{
    note_partly_accepted(p, result);
    if (result->too_large ? shrink(p) : result->status == 400 && shrink_on_suspicion(p)) {
        pyroscope_queue_rename(&p->queue);
        return;
    }
    pyroscope_queue_refuse(&p->queue);
}

/* Counts uncertain profiles as accepted, so that they are not sent again. */
static void drop(struct pusher *p)
{
    add(&p->stats->dropped, 1);
    for (int i = 0; i < PYROSCOPE_N_PROFILES; i++)
        p->queue.first->accepted[i] |= p->sending.profiles[i];
}

static void act_on_failure(struct pusher *p, const struct pyroscope_result *result)
{
    note_partly_accepted(p, result);
    back_off(p, result->retry_after_s);
    if (p->stop_by_ns != 0) {
        bool again = result->status == 429 || (result->cut && !p->tried_again);
        p->tried_again |= result->cut;
        p->gave_up |= !again || p->not_before_ns >= p->stop_by_ns;
    }
    p->queue.first->sent |= result->may_be_there;
    if (result->may_be_there && p->host->conf->pyroscope_uncertain == PYROSCOPE_DROP)
        drop(p);
    pyroscope_queue_limit(&p->queue, now_ns(), false);
}

static void act_on(struct pusher *p, const struct pyroscope_result *result)
{
    static const bool all[PYROSCOPE_N_PROFILES] = {true, true, true};
    note_result(p, result);
    switch (result->outcome) {
    case PYROSCOPE_ACCEPTED:
        note_accepted(p, all);
        p->backoff_ns = 0;
        p->max_samples_before = 0;
        break;
    case PYROSCOPE_REFUSED:
        act_on_refusal(p, result);
        break;
    case PYROSCOPE_FAILED:
        act_on_failure(p, result);
        break;
    }
    update_queue_stats(p);
}

/* ---- Sending ---- */

static uint64_t attempt_timeout_ms(const struct pusher *p)
{
    uint64_t timeout_ms = p->host->conf->pyroscope_timeout_ms, now = now_ns();
    if (p->stop_by_ns == 0)
        return timeout_ms;
    uint64_t left_ms = p->stop_by_ns > now ? (p->stop_by_ns - now) / 1000000 : 0;
    return left_ms < timeout_ms ? left_ms + 1 : timeout_ms;
}

/* A period is done when the server has all of it, or there is nothing to send. */
static void send_first(struct pusher *p)
{
    struct pyroscope_request request;
    int made = pyroscope_request_make(&request, &p->source, p->queue.first, p->max_samples);
    if (made == 0) {
        pyroscope_queue_remove(&p->queue);
        return;
    }
    if (made > 0) {
        p->sending = (struct sending){.bytes = request.bytes, .samples = request.samples};
        memcpy(p->sending.profiles, request.profiles, sizeof request.profiles);
        memcpy(p->sending.profile_bytes, request.profile_bytes, sizeof request.profile_bytes);
        add(&p->stats->folded, request.folded);
    }
    if (made < 0 || !pyroscope_sender_start(&p->sender, &request, attempt_timeout_ms(p))) {
        back_off(p, 0); /* no memory */
        p->gave_up = p->stop_by_ns != 0;
    }
}

/* A server that takes longer than a period gets several periods in one push. Otherwise the queue would only grow. */
static void catch_up(struct pusher *p)
{
    if (p->slow >= SLOW_PUSHES && p->queue.n > SLOW_PUSHES)
        pyroscope_queue_gather(&p->queue, false);
}

static void send_next(struct pusher *p)
{
    if (!p->sender.busy)
        catch_up(p);
    while (!p->sender.busy && !p->gave_up && now_ns() >= p->not_before_ns && pyroscope_queue_first(&p->queue))
        send_first(p);
    update_queue_stats(p);
}

/* ---- The loop ---- */

static uint64_t sleep_ms(const struct pusher *p)
{
    uint64_t now = now_ns(), until = p->stop_by_ns != 0 ? p->stop_by_ns : p->next_period_ns;
    if (!p->sender.busy && !p->gave_up && pyroscope_queue_first(&p->queue))
        until = earlier(until, p->not_before_ns);
    return until > now ? (until - now) / 1000000 + 1 : 0;
}

/* The queue is sent with the last period, without waiting for the back-off. A failure then ends the attempts, with two
 * exceptions: a rate limit that ends in time, and once a connection that was cut, because servers end old
 * connections. */
static void begin_to_stop(struct pusher *p, uint64_t stop_by_ns)
{
    uint64_t timeout_ns = ms_to_ns(p->host->conf->pyroscope_exit_timeout_ms);
    p->stop_by_ns = earlier(stop_by_ns > STOP_MARGIN_NS ? stop_by_ns - STOP_MARGIN_NS : 1, now_ns() + timeout_ns);
    p->not_before_ns = p->backoff_ns = 0;
    end_period(p);
    pyroscope_queue_gather(&p->queue, p->sender.busy);
    update_queue_stats(p);
}

static bool is_over(const struct pusher *p)
{
    bool idle = !p->sender.busy && (p->gave_up || !pyroscope_queue_first(&p->queue));
    return p->stop_by_ns != 0 && (idle || now_ns() >= p->stop_by_ns);
}

/* The program has closed our descriptors. The present request may have arrived, as after any cut. */
static bool begin_anew(struct pusher *p)
{
    if (p->sender.busy) {
        const struct pyroscope_result cut = {.outcome = PYROSCOPE_FAILED, .may_be_there = true, .answer = ""};
        add(&p->stats->uncertain, 1);
        act_on_failure(p, &cut);
    }
    pyroscope_sender_abandon(&p->sender);
    return p->host->renew(p->host) == 0 && pyroscope_sender_open(&p->sender, p->host);
}

static void loop(struct pusher *p)
{
    struct pyroscope_result result;
    while (!is_over(p)) {
        if (!p->host->has_descriptors(p->host) && !begin_anew(p)) {
            SAY(p, "the program has closed all descriptors, and there are no new ones; nothing more is pushed");
            break;
        }
        uint64_t stop_by_ns = p->host->stop_by_ns(p->host);
        if (p->stop_by_ns == 0 && stop_by_ns != 0)
            begin_to_stop(p, stop_by_ns);
        if (p->stop_by_ns == 0)
            end_period_if_due(p);
        send_next(p);
        if (is_over(p))
            break;
        if (pyroscope_sender_wait(&p->sender, p->stop_by_ns == 0 ? p->host->stop_fd : -1, sleep_ms(p), &result))
            act_on(p, &result);
    }
    say_loss(p);
}

/* ---- The service ---- */

static void ignore(void *user, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    (void)user;
    (void)s;
    (void)row;
    (void)totals;
}

/* A child reports its own figures. The parent's memory is in use in both. */
static int begin_at_fork(struct pusher *p, struct snapshot *base)
{
    int error = period_next(p->period, base, ignore, NULL);
    p->period_from_unix_ns = base->time_unix_ns;
    p->host->free_snapshot(base);
    return error;
}

static void say_labels(const struct pusher *p)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", p->source.labels.left_out);
    if (p->source.labels.left_out > 0)
        SAY(p, "pyroscope_labels and resource attributes: there are too many; ", number, " are left out");
}

static int begin(struct pusher *p, const struct service_host *host)
{
    const struct conf *c = host->conf;
    p->host = host;
    p->stats = host->pyroscope;
    p->shape = (struct digest_shape){.labels = c->series_labels, .names = &p->names, .ids = c->pyroscope_api == PYROSCOPE_PUSH};
    p->max_samples = c->pyroscope_max_samples;
    p->queue.max_bytes = c->pyroscope_queue_bytes;
    p->queue.max_nodes = (uint32_t)p->max_samples;
    p->queue.max_age_ns = c->pyroscope_queue_age_s * 1000000000u;
    p->next_period_ns = now_ns() + ms_to_ns(c->pyroscope_interval_ms);
    p->first_inuse_ns = p->next_inuse_ns =
        p->next_period_ns - ms_to_ns(c->pyroscope_interval_ms) + ms_to_ns(c->pyroscope_inuse_interval_ms);
    const char *wrong = pyroscope_target_check(c);
    if (wrong) {
        SAY(p, wrong, "; nothing is pushed");
        return -ECANCELED;
    }
    if (c->pyroscope_insecure)
        SAY(p, "pyroscope_insecure: the server's certificate is not checked");
    pyroscope_source_make(&p->source, c);
    say_labels(p);
    p->period = period_make();
    if (!pyroscope_sender_open(&p->sender, host) || !p->period || !label_names_make(&p->names, c->series_labels))
        return -ENOMEM;
    return host->base ? begin_at_fork(p, host->base) : 0;
}

static void end(struct pusher *p)
{
    if (p->host->has_descriptors(p->host))
        pyroscope_sender_close(&p->sender);
    else
        pyroscope_sender_abandon(&p->sender);
    pyroscope_queue_free(&p->queue);
    pyroscope_source_free(&p->source);
    label_names_free(&p->names);
    period_free(p->period);
    p->host->free_snapshot(p->snapshot);
}

/* TLS libraries end at exit, even in the middle of their initialisation. So the initialisation is not left to the
 * thread. */
static int prepare(const struct service_host *host)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    host->end_before_others();
    return 0;
}

static int run(const struct service_host *host)
{
    struct pusher *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    int error = begin(p, host);
    if (error == 0)
        loop(p);
    end(p);
    free(p);
    return error;
}

const struct service jespan_service_pyroscope = {
    .abi = SERVICE_ABI, .name = "pyroscope", .prepare = prepare, .run = run};
