/* SPDX-License-Identifier: BSD-2-Clause */
/* A protocol to push with: what the services that push do not have in common. pusher.c has the rest. */
#ifndef JESPAN_PUSH_PROTOCOL_H
#define JESPAN_PUSH_PROTOCOL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "push_request.h"
#include "report/service.h"

struct push_sender;
struct push_result;

/* The configuration of a service, whose keys begin with the name of the protocol. Texts may be "". */
struct push_settings {
    const char *url, *headers, *user, *password, *token, *proxy, *ca_file, *cert_file, *key_file;
    bool insecure;
    const char *labels; /* of spans, KEY|KEY… */
    bool all_labels;    /* in place of `labels` */
    bool ids;           /* also span_id and trace_id */
    const char *drop;   /* the key and value due to which uncertain pushes are not sent again. NULL: they are */
    uint64_t interval_ms, inuse_interval_ms, timeout_ms, connect_timeout_ms, exit_timeout_ms, queue_age_s;
    size_t queue_bytes, max_samples;
};

struct push_protocol {
    const char *name;
    struct push_stats *(*stats)(const struct service_host *host);
    void (*set)(struct push_settings *to, const struct conf *conf);

    /* Errors of keys that no other protocol has. Returns NULL, or a text without secrets. NULL: there are none. */
    const char *(*check)(const struct conf *conf);

    /* The parts that are the same in all requests. NULL: no memory. */
    void *(*source_make)(const struct service_host *host);
    void (*source_free)(void *source);

    /* Makes a request of the profiles that the server has not accepted yet. Each call gives the same bytes. Folds the
     * period until each profile has at most `max_samples`. Returns 1, 0 if there is nothing to send, or a negative
     * errno. */
    int (*make)(struct push_request *request, const void *source, struct waiting *period, size_t max_samples);

    /* Adds headers to a request with push_target_header(). False: no memory. NULL: there are none. */
    bool (*add_headers)(struct curl_slist **list, const struct conf *conf);

    /* Whether an answer with a status of 2xx may be from such a server. Others, such as a captive portal, answer 200 to
     * anything. `type` may be NULL. If not, `not_own` is the error. */
    bool (*is_own)(const char *type, const struct conf *conf);
    const char *not_own;

    /* Reads an answer, whose texts it may replace by others that can be shown. Then an accepted request is over when all
     * of the answer has arrived. NULL: the head says everything, and answers are texts. */
    void (*read)(struct push_sender *s, const char *type, struct push_result *result);

    bool (*is_passing)(long status); /* a request may be accepted later */
    bool (*is_too_large)(long status, const char *answer);

    /* Finds the profiles that the answer names as refused, so that the others count as accepted. Returns whether there are
     * any. NULL: answers name none. */
    bool (*find_refused)(bool refused[PUSH_N_PROFILES], const struct waiting *period, const bool sent[PUSH_N_PROFILES],
                         const size_t bytes[PUSH_N_PROFILES], const char *answer);
};

/* Runs the service until it must end. As service->prepare() and run(). */
int pusher_prepare(const struct service_host *host);
int pusher_run(const struct service_host *host, const struct push_protocol *protocol);

#endif
