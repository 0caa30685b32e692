/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `pyroscope`: pushes the figures of each period to a Pyroscope server. pusher.c has the loop; this is the
 * protocol. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push_protocol.h"
#include "push_send.h"
#include "pyroscope_request.h"
#include "report/service.h"

SERVICE_DEFINE(pyroscope);

static struct push_stats *stats(const struct service_host *host)
{
    return host->pyroscope;
}

static void set(struct push_settings *to, const struct conf *c)
{
    *to = (struct push_settings){
        .url = c->pyroscope_url, .headers = c->pyroscope_headers, .user = c->pyroscope_user, .password = c->pyroscope_password,
        .token = c->pyroscope_token, .proxy = c->pyroscope_proxy, .ca_file = c->pyroscope_ca_file,
        .cert_file = c->pyroscope_cert_file, .key_file = c->pyroscope_key_file, .insecure = c->pyroscope_insecure,
        .labels = c->series_labels, .ids = c->pyroscope_api == PYROSCOPE_PUSH,
        .drop = c->pyroscope_uncertain == PYROSCOPE_DROP ? "pyroscope_uncertain:drop" : NULL,
        .interval_ms = c->pyroscope_interval_ms, .inuse_interval_ms = c->pyroscope_inuse_interval_ms,
        .timeout_ms = c->pyroscope_timeout_ms, .connect_timeout_ms = c->pyroscope_connect_timeout_ms,
        .exit_timeout_ms = c->pyroscope_exit_timeout_ms, .queue_age_s = c->pyroscope_queue_age_s,
        .queue_bytes = c->pyroscope_queue_bytes, .max_samples = c->pyroscope_max_samples};
}

static const char *check(const struct conf *c)
{
    if (c->pyroscope_user[0] != '\0' && c->pyroscope_token[0] != '\0')
        return "pyroscope_user and pyroscope_token: there can only be one of them";
    if (c->pyroscope_user[0] == '\0' && c->pyroscope_password[0] != '\0')
        return "pyroscope_password: there is no pyroscope_user";
    if (!push_target_is_value(c->pyroscope_tenant))
        return "pyroscope_tenant: not a value for a header";
    return NULL;
}

/* ---- Requests ---- */

static void say_labels(const struct service_host *host, size_t left_out)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", left_out);
    if (left_out > 0)
        host->say((const char *const[]){"pyroscope: pyroscope_labels and resource attributes: there are too many; ", number,
                                        " are left out", NULL});
}

static void *source_make(const struct service_host *host)
{
    struct pyroscope_source *source = malloc(sizeof *source);
    if (!source)
        return NULL;
    pyroscope_source_make(source, host);
    say_labels(host, source->labels.left_out);
    return source;
}

static void source_free(void *source)
{
    pyroscope_source_free(source);
    free(source);
}

static int make(struct push_request *request, const void *source, struct waiting *period, size_t max_samples)
{
    return pyroscope_request_make(request, source, period, max_samples);
}

static bool add_headers(struct curl_slist **list, const struct conf *c)
{
    return push_target_header(list, "X-Scope-OrgID", c->pyroscope_tenant)
        && (c->pyroscope_api != PYROSCOPE_PUSH || push_target_header(list, "Connect-Protocol-Version", "1"));
}

/* ---- Answers ---- */

static bool is_own(const char *type, const struct conf *c)
{
    return c->pyroscope_api != PYROSCOPE_PUSH || (type && strncmp(type, "application/proto", 17) == 0);
}

static bool is_passing(long status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

/* A server answers 413 to a request that is too large. Pyroscope also answers 400 (/ingest: 422) with these words, from
 * pkg/validation/validate.go and pkg/distributor/distributor.go of its sources, version 2. */
static bool is_too_large(long status, const char *answer)
{
    return status == 413
        || ((status == 400 || status == 422)
            && (strstr(answer, "max_profile_size_byte") || strstr(answer, "max_profile_stacktrace_samples")
                || strstr(answer, "payload size exceeds limit")));
}

static size_t count_text(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static bool is_named(const struct waiting *period, const char *answer, int profile)
{
    char text[64] = "id ";
    push_request_id(text + 3, period, profile);
    return strstr(answer, strcat(text, " failed"));
}

/* Returns the largest profile of the request that is not refused yet, or −1. */
static int largest(const bool sent[PUSH_N_PROFILES], const size_t bytes[PUSH_N_PROFILES], const bool refused[PUSH_N_PROFILES])
{
    int found = -1;
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        if (sent[i] && !refused[i] && (found < 0 || bytes[i] > bytes[found]))
            found = i;
    return found;
}

/* For each refused profile, Pyroscope answers "push series with index N and id ID failed". For a profile that is too
 * large to be read it gives no ID; these are the largest ones. The words are from pkg/distributor/distributor.go of
 * its sources. An answer without them is about the whole request. */
static bool find_refused(bool refused[PUSH_N_PROFILES], const struct waiting *period, const bool sent[PUSH_N_PROFILES],
                         const size_t bytes[PUSH_N_PROFILES], const char *answer)
{
    bool any = false;
    size_t unread = count_text(answer, "uncompressed profile payload size exceeds limit");
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        any |= refused[i] = sent[i] && is_named(period, answer, i);
    for (int i; unread > 0 && (i = largest(sent, bytes, refused)) >= 0; unread--)
        any = refused[i] = true;
    return any;
}

static const struct push_protocol protocol = {
    .name = "pyroscope", .stats = stats, .set = set, .check = check, .source_make = source_make, .source_free = source_free,
    .make = make, .add_headers = add_headers, .is_own = is_own, .not_own = "the answer is not Pyroscope's",
    .is_passing = is_passing, .is_too_large = is_too_large, .find_refused = find_refused};

static int run(const struct service_host *host)
{
    return pusher_run(host, &protocol);
}

const struct service jespan_service_pyroscope = {
    .abi = SERVICE_ABI, .name = "pyroscope", .prepare = pusher_prepare, .run = run};
