/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `otlp`: pushes the figures of each period to an OpenTelemetry collector, by OTLP over HTTP. pusher.c has
 * the loop; this is the protocol. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "otlp.pb-c.h"
#include "otlp_request.h"
#include "push_protocol.h"
#include "push_send.h"
#include "report/service.h"

SERVICE_DEFINE(otlp);

#define MAX_CONNECT_MS 5000
#define NEVER_S (UINT64_MAX / 1000000000u) /* collectors take profiles of any age */

static struct push_stats *stats(const struct service_host *host)
{
    return host->otlp;
}

/* Labels of samples make no series, so all are kept. Memory in use is in each push: a collector does not add up. */
static void set(struct push_settings *to, const struct conf *c)
{
    *to = (struct push_settings){
        .url = c->otlp_url, .headers = c->otlp_headers, .user = "", .password = "", .token = "", .proxy = "",
        .ca_file = c->otlp_ca_file, .cert_file = c->otlp_cert_file, .key_file = c->otlp_key_file, .insecure = c->otlp_insecure,
        .labels = "", .all_labels = true, .ids = true,
        .interval_ms = c->otlp_interval_ms, .timeout_ms = c->otlp_timeout_ms,
        .connect_timeout_ms = lesser(c->otlp_timeout_ms, MAX_CONNECT_MS),
        .exit_timeout_ms = c->otlp_exit_timeout_ms, .queue_age_s = NEVER_S, .queue_bytes = c->otlp_queue_bytes,
        .max_samples = c->otlp_max_samples};
}

/* ---- Requests ---- */

static void source_free(void *source)
{
    otlp_source_free(source);
    free(source);
}

static void *source_make(const struct service_host *host)
{
    struct otlp_source *source = malloc(sizeof *source);
    if (source && otlp_source_make(source, host) != 0) {
        source_free(source);
        return NULL;
    }
    return source;
}

static int make(struct push_request *request, const void *source, struct waiting *period, size_t max_samples)
{
    return otlp_request_make(request, source, period, max_samples);
}

/* ---- Answers ---- */

static bool is_protobuf(const char *type)
{
    return type && strncmp(type, "application/x-protobuf", 22) == 0;
}

/* Some servers answer with JSON, or with nothing. */
static bool is_own(const char *type, const struct conf *c)
{
    (void)c;
    return !type || is_protobuf(type) || strncmp(type, "application/", 12) == 0;
}

/* These and no others, by the specification of OTLP/HTTP. */
static bool is_passing(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static bool is_too_large(long status, const char *answer)
{
    (void)answer;
    return status == 413;
}

static void show(struct push_sender *s, const char *text)
{
    snprintf(s->answer, sizeof s->answer, "%s", text);
    s->answer_bytes = strlen(s->answer);
}

static void read_refusal(struct push_sender *s)
{
    Jespan__Otlp__Status *status = jespan__otlp__status__unpack(NULL, s->answer_bytes, (const uint8_t *)s->answer);
    show(s, status ? status->message : "");
    jespan__otlp__status__free_unpacked(status, NULL);
}

/* A collector may drop a part for good, and must not be sent it again. It may also only have something to say. */
static void read_success(struct push_sender *s, struct push_result *result)
{
    Jespan__Otlp__ExportProfilesServiceResponse *answer =
        jespan__otlp__export_profiles_service_response__unpack(NULL, s->answer_bytes, (const uint8_t *)s->answer);
    const Jespan__Otlp__ExportProfilesPartialSuccess *partial = answer ? answer->partial_success : NULL;
    result->partly = partial && partial->rejected_profiles > 0;
    if (result->partly)
        result->error = "the collector dropped a part of the push";
    else if (partial && partial->error_message[0] != '\0')
        result->error = "the collector warns";
    show(s, partial ? partial->error_message : "");
    jespan__otlp__export_profiles_service_response__free_unpacked(answer, NULL);
}

/* `type` says whether the answer is protobuf. */
static void read_answer(struct push_sender *s, const char *type, struct push_result *result)
{
    if (!is_protobuf(type))
        return;
    if (result->status < 300)
        read_success(s, result);
    else
        read_refusal(s);
}

static const struct push_protocol protocol = {
    .name = "otlp", .stats = stats, .set = set, .source_make = source_make, .source_free = source_free, .make = make,
    .is_own = is_own, .not_own = "the answer is not a collector's", .read = read_answer, .is_passing = is_passing,
    .is_too_large = is_too_large};

static int run(const struct service_host *host)
{
    return pusher_run(host, &protocol);
}

const struct service jespan_service_otlp = {.abi = SERVICE_ABI, .name = "otlp", .prepare = pusher_prepare, .run = run};
