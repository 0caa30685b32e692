/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `pyroscope`: pushes what each period brought to a Pyroscope server.
 *
 * One thread, one loop: a period ends and joins the queue; what is first in the queue is sent; the answer decides what
 * becomes of it. The loop sleeps in pyroscope_sender_wait() only, so that periods end in time whatever the server does.
 * After a failure nothing is sent for a while, which doubles with each further one, with jitter, so that the processes
 * of a fleet do not come back all at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/clock.h"
#include "digest.h"
#include "period.h"
#include "pyroscope_profile.h"
#include "pyroscope_queue.h"
#include "pyroscope_request.h"
#include "pyroscope_send.h"
#include "pyroscope_target.h"
#include "random.h"
#include "service.h"

SERVICE_DEFINE(pyroscope);

#define MAX_SAID 3
#define MIN_SAMPLES 100 /* a server that takes no profile of that size is not asked for less */
#define FIRST_BACKOFF_NS ((uint64_t)500000000)
#define MAX_BACKOFF_NS ((uint64_t)60000000000)
#define END_NS ((uint64_t)3000000000) /* for the last pushes, where shutdown_timeout_ms is not less */
#define STOP_MARGIN_NS ((uint64_t)50000000) /* for what comes between the end of the loop and that of the thread */

#define ms_to_ns(ms) ((ms) * (uint64_t)1000000)

struct pusher {
    const struct service_host *host;
    struct pyroscope_stats *stats;
    struct digest_shape shape;
    struct pyroscope_source source;
    struct pyroscope_sender sender;
    struct pyroscope_queue queue;
    struct period *period;
    struct snapshot *snapshot; /* the last one's memory */
    uint32_t last_nodes;       /* that the last digest had before it was folded */
    uint64_t period_from_unix_ns;
    uint64_t next_period_ns;    /* on CLOCK_MONOTONIC, as all below */
    uint64_t not_before_ns;     /* nothing is sent until then */
    uint64_t backoff_ns;        /* 0: the last attempt succeeded */
    uint64_t stop_by_ns;        /* 0: the program goes on */
    size_t max_samples;
    int profile;                /* under way */
    size_t sending_bytes;
    const char *said[MAX_SAID]; /* errors that were said since the last success */
    size_t n_said;
    bool gave_up;               /* at the end */
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

/* Without memory for it, what it would have brought is part of the next one. */
static void end_period(struct pusher *p)
{
    struct digest *digest = pyroscope_queue_reserve(&p->queue) ? digest_make(&p->shape) : NULL;
    struct snapshot *s = digest != NULL ? p->host->snapshot(p->snapshot) : NULL;
    p->snapshot = s != NULL ? s : p->snapshot;
    if (s != NULL)
        digest_reserve(digest, p->last_nodes);
    if (s == NULL || period_next(p->period, s, digest_add, digest) != 0) {
        digest_free(digest);
        return;
    }
    uint64_t from_unix_ns = p->period_from_unix_ns != 0 ? p->period_from_unix_ns : s->start_unix_ns;
    digest_set_time(digest, earlier(from_unix_ns, s->time_unix_ns), s->time_unix_ns); /* the clock may have been set back */
    p->period_from_unix_ns = s->time_unix_ns;
    p->last_nodes = digest_nodes(digest);
    add(&p->stats->folded, digest_fold(digest, (uint32_t)p->max_samples));
    pyroscope_queue_add(&p->queue, digest, now_ns());
    pyroscope_queue_limit(&p->queue, now_ns(), p->sender.busy);
    update_queue_stats(p);
}

/* Periods that were missed, as the thread did not run, are not made up for. */
static void end_period_if_due(struct pusher *p)
{
    uint64_t interval_ns = ms_to_ns(p->host->conf->pyroscope_interval_ms), now = now_ns();
    if (now < p->next_period_ns)
        return;
    p->next_period_ns += (1 + (now - p->next_period_ns) / interval_ns) * interval_ns;
    end_period(p);
}

/* ---- What becomes of a request ---- */

static const char *consequence(const struct pusher *p, const struct pyroscope_result *result)
{
    if (p->stop_by_ns != 0)
        return "; the program ends before all was pushed";
    return result->outcome == PYROSCOPE_REFUSED ? "; its figures go into the next push, more errors like this are only counted"
                                                : "; it is tried again, more errors like this are only counted";
}

/* Of failures in a row, the first of each kind is said, but no more than a few: some take turns. */
static bool is_new(const struct pusher *p, const char *error)
{
    for (size_t i = 0; i < p->n_said; i++)
        if (p->said[i] == error)
            return false;
    return p->n_said < MAX_SAID;
}

static void say_error(struct pusher *p, const struct pyroscope_result *result)
{
    if (!is_new(p, result->error))
        return;
    p->said[p->n_said++] = result->error;
    SAY(p, result->error, result->detail[0] != '\0' ? ": " : "", result->detail, consequence(p, result));
}

static void note_result(struct pusher *p, const struct pyroscope_result *result)
{
    struct pyroscope_stats *stats = p->stats;
    atomic_store_explicit(&stats->last_status, (uint64_t)result->status, memory_order_relaxed);
    atomic_store_explicit(&stats->last_latency_ns, result->latency_ns, memory_order_relaxed);
    atomic_store_explicit(&stats->last_error, result->error, memory_order_release);
    if (result->outcome == PYROSCOPE_ACCEPTED) {
        add(&stats->pushes, 1);
        add(&stats->pushed_bytes, p->sending_bytes);
        atomic_store_explicit(&stats->last_success_s, (uint64_t)time(NULL), memory_order_relaxed);
        return;
    }
    add(&stats->failures, 1);
    if (result->outcome == PYROSCOPE_REFUSED)
        add(&stats->rejected, 1);
    say_error(p, result);
}

/* Between a half and the whole of the back-off; the server's word counts for more. */
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

/* A server with a lower limit than is configured. */
static void shrink(struct pusher *p)
{
    if (p->max_samples > MIN_SAMPLES)
        p->max_samples = p->max_samples / 2 > MIN_SAMPLES ? p->max_samples / 2 : MIN_SAMPLES;
    p->queue.max_nodes = (uint32_t)p->max_samples;
}

static void act_on(struct pusher *p, const struct pyroscope_result *result)
{
    note_result(p, result);
    p->gave_up |= p->stop_by_ns != 0 && result->outcome == PYROSCOPE_FAILED;
    switch (result->outcome) {
    case PYROSCOPE_ACCEPTED:
        p->queue.first->accepted[p->profile] = true;
        p->backoff_ns = 0;
        p->n_said = 0;
        break;
    case PYROSCOPE_REFUSED:
        if (result->status == 413)
            shrink(p);
        pyroscope_queue_refuse(&p->queue);
        break;
    case PYROSCOPE_FAILED:
        back_off(p, result->retry_after_s);
        pyroscope_queue_limit(&p->queue, now_ns(), false);
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

static void send_profile(struct pusher *p, struct waiting *w)
{
    struct pyroscope_request request;
    int made = pyroscope_request_make(&request, &p->source, w, p->profile, p->max_samples);
    if (made == 0) {
        w->accepted[p->profile] = true;
        return;
    }
    p->sending_bytes = request.bytes;
    add(&p->stats->folded, made > 0 ? request.folded : 0);
    w->sent = true;
    if (made < 0 || !pyroscope_sender_start(&p->sender, &request, attempt_timeout_ms(p))) {
        back_off(p, 0); /* there is no memory */
        p->gave_up = p->stop_by_ns != 0;
    }
}

/* The next profile of the first period, or, if the server has all of it, of the next. */
static void send_next(struct pusher *p)
{
    struct waiting *w;
    while (!p->sender.busy && !p->gave_up && (p->stop_by_ns != 0 || now_ns() >= p->not_before_ns)
           && (w = pyroscope_queue_first(&p->queue)) != NULL) {
        p->profile = 0;
        while (p->profile < PYROSCOPE_N_PROFILES && w->accepted[p->profile])
            p->profile++;
        if (p->profile < PYROSCOPE_N_PROFILES)
            send_profile(p, w);
        else
            pyroscope_queue_remove(&p->queue);
    }
    update_queue_stats(p);
}

/* ---- The loop ---- */

static uint64_t sleep_ms(const struct pusher *p)
{
    uint64_t now = now_ns(), until = p->stop_by_ns != 0 ? p->stop_by_ns : p->next_period_ns;
    if (!p->sender.busy && p->stop_by_ns == 0 && pyroscope_queue_first(&p->queue) != NULL)
        until = earlier(until, p->not_before_ns);
    return until > now ? (until - now) / 1000000 + 1 : 0;
}

/* The last period is sent without regard to the back-off; whatever fails then is given up. */
static void begin_to_stop(struct pusher *p, uint64_t stop_by_ns)
{
    p->stop_by_ns = earlier(stop_by_ns > STOP_MARGIN_NS ? stop_by_ns - STOP_MARGIN_NS : 1, now_ns() + END_NS);
    end_period(p);
}

static bool is_over(const struct pusher *p)
{
    bool idle = !p->sender.busy && (p->gave_up || pyroscope_queue_first(&p->queue) == NULL);
    return p->stop_by_ns != 0 && (idle || now_ns() >= p->stop_by_ns);
}

/* The program has closed our descriptors: what was under way may have arrived or not, as after any cut. */
static bool begin_anew(struct pusher *p)
{
    if (p->sender.busy)
        back_off(p, 0);
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
    if (p->queue.n > 0 && p->n_said == 0)
        SAY(p, "the program ends before all was pushed");
}

/* ---- The service ---- */

static void ignore(void *user, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    (void)user;
    (void)s;
    (void)row;
    (void)totals;
}

/* A child tells what it did itself; what it got from its parent is in use in both. */
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
    if (p->source.labels.malformed)
        SAY(p, "pyroscope_labels or resource attributes: not all of it is NAME=VALUE; the rest is used");
    if (p->source.labels.left_out > 0)
        SAY(p, "pyroscope_labels and resource attributes: there are too many; ", number, " are left out");
}

static int begin(struct pusher *p, const struct service_host *host)
{
    const struct conf *c = host->conf;
    p->host = host;
    p->stats = host->pyroscope;
    p->shape = (struct digest_shape){.labels = c->series_labels, .ids = c->pyroscope_api == PYROSCOPE_PUSH};
    p->max_samples = c->pyroscope_max_samples;
    p->queue.max_bytes = c->pyroscope_queue_bytes;
    p->queue.max_nodes = (uint32_t)p->max_samples;
    p->queue.max_age_ns = c->pyroscope_queue_age_s * 1000000000u;
    p->next_period_ns = now_ns() + ms_to_ns(c->pyroscope_interval_ms);
    const char *wrong = pyroscope_target_check(c);
    if (wrong != NULL) {
        SAY(p, wrong, "; nothing is pushed");
        return -ECANCELED;
    }
    if (c->pyroscope_insecure)
        SAY(p, "pyroscope_insecure: the server's certificate is not checked");
    pyroscope_source_make(&p->source, c);
    say_labels(p);
    p->period = period_make();
    if (!pyroscope_sender_open(&p->sender, host) || p->period == NULL)
        return -ENOMEM;
    return host->base != NULL ? begin_at_fork(p, host->base) : 0;
}

static void end(struct pusher *p)
{
    if (p->host->has_descriptors(p->host))
        pyroscope_sender_close(&p->sender);
    else
        pyroscope_sender_abandon(&p->sender);
    pyroscope_queue_free(&p->queue);
    pyroscope_source_free(&p->source);
    period_free(p->period);
    p->host->free_snapshot(p->snapshot);
}

/* TLS libraries end themselves at exit, whether their initialisation is over or not: so it is not left to the thread. */
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
    if (p == NULL)
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
