/* SPDX-License-Identifier: BSD-2-Clause */
/* A service that pushes the figures of each period to a server, by a protocol (push_protocol.h).
 *
 * One thread runs one loop. A period ends and joins the queue. The first period of the queue is sent, and the answer
 * decides what happens to it. The loop sleeps only in push_sender_wait(), so periods end in time whatever the
 * server does. push_outcome.c says what an answer, or a failure, means.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "digest.h"
#include "pusher.h"
#include "push_queue.h"
#include "push_send.h"
#include "report/service.h"

#define SLOW_PUSHES 3 /* after so many consecutive ones, periods are merged */
#define NAMES_WAIT_NS ((uint64_t)5000000000) /* at most, and no longer than a period */
#define NAMES_PAUSE_MS 20
#define STOP_MARGIN_NS ((uint64_t)50000000) /* between the end of the loop and the end of the thread */

/* ---- Periods ---- */

static void update_queue_stats(struct pusher *p)
{
    atomic_store_explicit(&p->stats->queue_length, p->queue.n, memory_order_relaxed);
    atomic_store_explicit(&p->stats->queue_bytes, p->queue.bytes, memory_order_relaxed);
    atomic_store_explicit(&p->stats->merged, p->queue.merged, memory_order_relaxed);
    add_stat(&p->stats->folded, p->queue.folded);
    p->queue.folded = 0;
}

/* Memory in use is a state, but a server sums the values of a step of a graph. So it is reported once per step. */
static bool is_inuse_due(struct pusher *p)
{
    uint64_t interval_ns = ms_to_ns(p->settings.inuse_interval_ms), now = now_ns();
    if (interval_ns == 0)
        return true;
    bool first_at_end = p->stop_by_ns != 0 && p->next_inuse_ns == p->first_inuse_ns;
    if (now < p->next_inuse_ns && !first_at_end)
        return false;
    if (now >= p->next_inuse_ns)
        p->next_inuse_ns += (1 + (now - p->next_inuse_ns) / interval_ns) * interval_ns;
    return true;
}

/* Waits for names of calls, which the host looks for, but not for long. Meanwhile the present request goes on. */
static void await_names(struct pusher *p, struct push_calls *calls)
{
    struct push_result result;
    uint64_t until_ns = now_ns() + lesser(ms_to_ns(p->settings.interval_ms), NAMES_WAIT_NS), stop_by_ns = 0;
    while (push_calls_lack_names(calls, p->host)) {
        if (stop_by_ns == 0 && (stop_by_ns = p->stop_by_ns != 0 ? p->stop_by_ns : p->host->stop_by_ns(p->host)) != 0)
            until_ns = lesser(until_ns, now_ns() + (stop_by_ns > now_ns() ? stop_by_ns - now_ns() : 0) / 2);
        if (now_ns() >= until_ns || !p->host->has_descriptors(p->host))
            return;
        if (push_sender_wait(&p->sender, stop_by_ns == 0 ? p->host->stop_fd : -1, NAMES_PAUSE_MS, &result))
            pusher_act_on(p, &result);
    }
}

/* Without memory, the figures of this period are part of the next one. */
static void end_period(struct pusher *p)
{
    struct push_calls calls = {0};
    struct digest *digest = push_queue_reserve(&p->queue) ? digest_make(&p->shape) : NULL;
    struct snapshot *s = digest ? p->host->snapshot(p->snapshot) : NULL;
    p->snapshot = s ? s : p->snapshot;
    if (s)
        digest_reserve(digest, p->last_nodes);
    if (!s || push_calls_make(&calls, p->period, &p->stacks, s) != 0) {
        push_calls_free(&calls);
        digest_free(digest);
        return;
    }
    push_calls_find(&calls);
    await_names(p, &calls);
    push_calls_add(&calls, p->host, digest);
    push_calls_free(&calls);
    uint64_t from_unix_ns = p->period_from_unix_ns != 0 ? p->period_from_unix_ns : s->start_unix_ns;
    /* The clock may have been set back, so the start may be after the end. */
    digest_set_time(digest, lesser(from_unix_ns, s->time_unix_ns), s->time_unix_ns);
    p->period_from_unix_ns = s->time_unix_ns;
    p->last_nodes = digest_nodes(digest);
    add_stat(&p->stats->folded, digest_fold(digest, (uint32_t)p->max_samples));
    push_queue_add(&p->queue, digest, now_ns());
    p->queue.last->inuse |= is_inuse_due(p);
    push_queue_limit(&p->queue, now_ns(), p->sender.busy);
    update_queue_stats(p);
}

/* Periods that were missed because the thread did not run are skipped. */
static void end_period_if_due(struct pusher *p)
{
    uint64_t interval_ns = ms_to_ns(p->settings.interval_ms), now = now_ns();
    if (now < p->next_period_ns)
        return;
    p->next_period_ns += (1 + (now - p->next_period_ns) / interval_ns) * interval_ns;
    end_period(p);
}

/* ---- Sending ---- */

static uint64_t attempt_timeout_ms(const struct pusher *p)
{
    uint64_t timeout_ms = p->settings.timeout_ms, now = now_ns();
    if (p->stop_by_ns == 0)
        return timeout_ms;
    uint64_t left_ms = p->stop_by_ns > now ? (p->stop_by_ns - now) / 1000000 : 0;
    return left_ms < timeout_ms ? left_ms + 1 : timeout_ms;
}

/* A period is done when the server has all of it, or there is nothing to send. */
static void send_first(struct pusher *p)
{
    struct push_request request;
    int made = p->protocol->make(&request, p->source, p->queue.first, p->max_samples);
    if (made == 0) {
        push_queue_remove(&p->queue);
        return;
    }
    if (made > 0) {
        p->sending = (struct sending){.bytes = request.bytes, .samples = request.samples};
        memcpy(p->sending.profiles, request.profiles, sizeof request.profiles);
        memcpy(p->sending.profile_bytes, request.profile_bytes, sizeof request.profile_bytes);
        add_stat(&p->stats->folded, request.folded);
    }
    if (made < 0 || !push_sender_start(&p->sender, &request, attempt_timeout_ms(p))) {
        pusher_back_off(p, 0); /* no memory */
        p->gave_up = p->stop_by_ns != 0;
    }
}

/* A server that takes longer than a period gets several periods in one push. Otherwise the queue would only grow. */
static void catch_up(struct pusher *p)
{
    if (p->slow >= SLOW_PUSHES && p->queue.n > SLOW_PUSHES)
        push_queue_gather(&p->queue, false);
}

static void send_next(struct pusher *p)
{
    if (!p->sender.busy)
        catch_up(p);
    while (!p->sender.busy && !p->gave_up && now_ns() >= p->not_before_ns && push_queue_first(&p->queue))
        send_first(p);
    update_queue_stats(p);
}

/* ---- The loop ---- */

static uint64_t sleep_ms(const struct pusher *p)
{
    uint64_t now = now_ns(), until = p->stop_by_ns != 0 ? p->stop_by_ns : p->next_period_ns;
    if (!p->sender.busy && !p->gave_up && push_queue_first(&p->queue))
        until = lesser(until, p->not_before_ns);
    return until > now ? (until - now) / 1000000 + 1 : 0;
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

/* The queue is sent with the last period, without waiting for the back-off. A failure then ends the attempts, with two
 * exceptions: a rate limit that ends in time, and once a connection that was cut, because servers end old
 * connections. */
static void begin_to_stop(struct pusher *p, uint64_t stop_by_ns)
{
    uint64_t timeout_ns = ms_to_ns(p->settings.exit_timeout_ms);
    p->stop_by_ns = lesser(stop_by_ns > STOP_MARGIN_NS ? stop_by_ns - STOP_MARGIN_NS : 1, now_ns() + timeout_ns);
    p->not_before_ns = p->backoff_ns = 0;
    end_period(p);
    push_queue_gather(&p->queue, p->sender.busy);
    update_queue_stats(p);
}

static bool is_over(const struct pusher *p)
{
    bool idle = !p->sender.busy && (p->gave_up || !push_queue_first(&p->queue));
    return p->stop_by_ns != 0 && (idle || now_ns() >= p->stop_by_ns);
}

/* The program has closed our descriptors. The present request may have arrived, as after any cut. */
static bool begin_anew(struct pusher *p)
{
    if (p->sender.busy) {
        const struct push_result cut = {.outcome = PUSH_FAILED, .may_be_there = true, .answer = ""};
        add_stat(&p->stats->uncertain, 1);
        pusher_act_on_failure(p, &cut);
    }
    push_sender_abandon(&p->sender);
    return p->host->renew(p->host) == 0 && push_sender_open(&p->sender, p->host, p->protocol);
}

static void loop(struct pusher *p)
{
    struct push_result result;
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
        if (!push_sender_wait(&p->sender, p->stop_by_ns == 0 ? p->host->stop_fd : -1, sleep_ms(p), &result))
            continue;
        pusher_act_on(p, &result);
        update_queue_stats(p);
    }
    say_loss(p);
}

/* ---- The service ---- */

/* A child reports its own figures. The parent's memory is in use in both. */
static int begin_at_fork(struct pusher *p, struct snapshot *base)
{
    struct push_calls calls;
    int error = push_calls_make(&calls, p->period, &p->stacks, base);
    push_calls_free(&calls);
    p->period_from_unix_ns = base->time_unix_ns;
    return error;
}

static int begin(struct pusher *p, const struct service_host *host, const struct push_protocol *protocol)
{
    char wrong[PUSH_WRONG_BYTES];
    const struct push_settings *c = &p->settings;
    p->host = host;
    p->protocol = protocol;
    p->stats = protocol->stats(host);
    protocol->set(&p->settings, host->conf);
    p->shape = (struct digest_shape){.labels = c->labels, .all = c->all_labels, .names = c->all_labels ? NULL : &p->names, .ids = c->ids};
    p->max_samples = c->max_samples;
    p->queue.max_bytes = c->queue_bytes;
    p->queue.max_nodes = (uint32_t)p->max_samples;
    p->queue.max_age_ns = c->queue_age_s * 1000000000u;
    p->next_period_ns = now_ns() + ms_to_ns(c->interval_ms);
    p->first_inuse_ns = p->next_inuse_ns = p->next_period_ns - ms_to_ns(c->interval_ms) + ms_to_ns(c->inuse_interval_ms);
    if (!push_target_check(wrong, protocol, host->conf)) {
        SAY(p, wrong, "; nothing is pushed");
        return -ECANCELED;
    }
    if (c->insecure)
        SAY(p, protocol->name, "_insecure: the server's certificate is not checked");
    p->source = protocol->source_make(host);
    p->period = period_make();
    if (!push_sender_open(&p->sender, host, protocol) || !p->source || !p->period || !label_names_make(&p->names, c->labels))
        return -ENOMEM;
    return host->base ? begin_at_fork(p, host->base) : 0;
}

static void end(struct pusher *p)
{
    if (p->host->has_descriptors(p->host))
        push_sender_close(&p->sender);
    else
        push_sender_abandon(&p->sender);
    push_queue_free(&p->queue);
    if (p->source)
        p->protocol->source_free(p->source);
    label_names_free(&p->names);
    period_free(p->period);
    period_stacks_free(&p->stacks);
    p->host->free_snapshot(p->snapshot);
}

/* TLS libraries end at exit, even in the middle of their initialisation. So the initialisation is not left to the
 * thread. */
int pusher_prepare(const struct service_host *host)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    host->end_before_others();
    return 0;
}

int pusher_run(const struct service_host *host, const struct push_protocol *protocol)
{
    struct pusher *p = calloc(1, sizeof *p);
    int error = p ? begin(p, host, protocol) : -ENOMEM;
    host->free_snapshot(host->base);
    if (!p)
        return error;
    if (error == 0)
        loop(p);
    end(p);
    free(p);
    return error;
}
