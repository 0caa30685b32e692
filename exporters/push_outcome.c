/* SPDX-License-Identifier: BSD-2-Clause */
/* Acts on the outcome of a request. It counts and reports the outcome, and decides what is
 * sent again, when, and how large.
 *
 * After a failure nothing is sent for a time that doubles with each further failure. Jitter keeps the processes of a
 * fleet from coming back at once. A server may accept or refuse each profile of a request. Its answer then names the
 * refused ones.
 */
#include <string.h>
#include <time.h>

#include "pusher.h"
#include "random.h"

#define REPEAT_NS ((uint64_t)600000000000)
#define MIN_SAMPLES 100 /* profiles are not made smaller than this */
#define FIRST_BACKOFF_NS ((uint64_t)500000000)
#define MAX_BACKOFF_NS ((uint64_t)60000000000)

/* ---- Statistics and messages ---- */

static const char *consequence(const struct pusher *p, const struct push_result *result)
{
    if (result->outcome == PUSH_ACCEPTED)
        return result->partly ? "; what it dropped is lost" : "";
    if (result->outcome == PUSH_REFUSED)
        return "; its figures go into the next push";
    return result->may_be_there && p->settings.drop ? "; the server may have it, so it is not tried again" : "; it is tried again";
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
static void say_error(struct pusher *p, const struct push_result *result)
{
    if (p->stop_by_ns != 0) {
        p->last_error = result->error;
        strcpy(p->last_detail, result->detail);
    } else if (is_new(p, result->error)) {
        bool drops = result->may_be_there && p->settings.drop;
        SAY(p, result->error, result->detail[0] != '\0' ? ": " : "", result->detail, consequence(p, result),
            drops ? " (" : "", drops ? p->settings.drop : "", drops ? ")" : "", ", more errors like this are only counted for 10 minutes");
    }
}

static void note_result(struct pusher *p, const struct push_result *result)
{
    struct push_stats *stats = p->stats;
    atomic_store_explicit(&stats->last_status, (uint64_t)result->status, memory_order_relaxed);
    atomic_store_explicit(&stats->last_latency_ns, result->latency_ns, memory_order_relaxed);
    atomic_store_explicit(&stats->last_error, result->error, memory_order_release);
    if (result->outcome == PUSH_ACCEPTED) {
        add_stat(&stats->pushed_bytes, p->sending.bytes);
        p->slow = result->latency_ns >= ms_to_ns(p->settings.interval_ms) ? p->slow + 1 : 0;
        if (result->error)
            say_error(p, result);
        if (!result->partly)
            return;
    } else {
        p->slow = 0;
    }
    add_stat(&stats->failures, 1);
    if (result->outcome == PUSH_REFUSED || result->partly)
        add_stat(&stats->rejected, 1);
    if (result->may_be_there)
        add_stat(&stats->uncertain, 1);
    if (result->outcome != PUSH_ACCEPTED)
        say_error(p, result);
}

/* `accepted`: which profiles of the request the server has accepted. This changes the last statistic of a push: a
 * reader that sees it sees the others too. */
static void note_accepted(struct pusher *p, const bool accepted[PUSH_N_PROFILES])
{
    uint64_t n = 0;
    for (int i = 0; i < PUSH_N_PROFILES; i++) {
        if (!p->sending.profiles[i] || !accepted[i])
            continue;
        p->queue.first->accepted[i] = true;
        p->sending.profiles[i] = false;
        n++;
    }
    if (n == 0)
        return;
    atomic_store_explicit(&p->stats->last_success_s, (uint64_t)time(NULL), memory_order_relaxed);
    add_stat(&p->stats->pushes, n);
}

/* ---- Partly accepted requests ---- */

static void note_partly_accepted(struct pusher *p, const struct push_result *result)
{
    bool refused[PUSH_N_PROFILES] = {false}, accepted[PUSH_N_PROFILES];
    bool any = p->protocol->find_refused
        && p->protocol->find_refused(refused, p->queue.first, p->sending.profiles, p->sending.profile_bytes, result->answer);
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        accepted[i] = any && !refused[i];
    note_accepted(p, accepted);
}

/* ---- Attempts after failures ---- */

/* Waits between half of the back-off and all of it, or as long as the server asks for, if that is longer. */
void pusher_back_off(struct pusher *p, uint64_t retry_after_s)
{
    uint64_t interval_ns = ms_to_ns(p->settings.interval_ms), jitter;
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
static void act_on_refusal(struct pusher *p, const struct push_result *result)
{
    note_partly_accepted(p, result);
    if (result->too_large ? shrink(p) : result->status == 400 && shrink_on_suspicion(p)) {
        push_queue_rename(&p->queue);
        return;
    }
    push_queue_refuse(&p->queue);
}

/* Counts uncertain profiles as accepted, so that they are not sent again. */
static void drop(struct pusher *p)
{
    add_stat(&p->stats->dropped, 1);
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        p->queue.first->accepted[i] |= p->sending.profiles[i];
}

void pusher_act_on_failure(struct pusher *p, const struct push_result *result)
{
    note_partly_accepted(p, result);
    pusher_back_off(p, result->retry_after_s);
    if (p->stop_by_ns != 0) {
        bool again = result->status == 429 || (result->cut && !p->tried_again);
        p->tried_again |= result->cut;
        p->gave_up |= !again || p->not_before_ns >= p->stop_by_ns;
    }
    p->queue.first->sent |= result->may_be_there;
    if (result->may_be_there && p->settings.drop)
        drop(p);
    push_queue_limit(&p->queue, now_ns(), false);
}

void pusher_act_on(struct pusher *p, const struct push_result *result)
{
    static const bool all[PUSH_N_PROFILES] = {true, true, true};
    note_result(p, result);
    switch (result->outcome) {
    case PUSH_ACCEPTED:
        note_accepted(p, all);
        p->backoff_ns = 0;
        p->max_samples_before = 0;
        break;
    case PUSH_REFUSED:
        act_on_refusal(p, result);
        break;
    case PUSH_FAILED:
        pusher_act_on_failure(p, result);
        break;
    }
}
