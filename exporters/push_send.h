/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends requests to a server with libcurl, one at a time. Sending continues in push_sender_wait() and
 * never blocks elsewhere. */
#ifndef JESPAN_PUSH_SEND_H
#define JESPAN_PUSH_SEND_H

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "push_protocol.h"
#include "push_request.h"
#include "report/service.h"

#define PUSH_ANSWER_BYTES 16384 /* the longest answer that is read */
#define PUSH_DETAIL_BYTES 300   /* the longest part of an answer that is shown */

enum push_outcome {
    PUSH_ACCEPTED,
    PUSH_REFUSED, /* the server will never accept it unchanged */
    PUSH_FAILED,  /* the server may accept it later */
};

struct push_result {
    enum push_outcome outcome;
    long status;             /* of HTTP. 0: no answer */
    uint64_t retry_after_s;  /* as the server asks. 0: it does not */
    uint64_t latency_ns;
    bool may_be_there;       /* it failed, but the server received all of it and may have stored it */
    bool cut;                /* the connection ended without an answer */
    bool too_large;          /* refused for its size: a smaller request may be accepted */
    bool partly;             /* accepted, but the server dropped a part of it for good. `error` is not NULL then */
    const char *error;       /* a short text, never freed. NULL: accepted, and nothing to say */
    const char *detail;      /* more about the error, without secrets, or "". Valid until the next request */
    const char *answer;      /* the whole answer, which may have secrets. "": too long, or none. Valid as long as detail */
};

#define PUSH_MAX_SOCKETS 8 /* a connection, a parallel attempt, and a name lookup need fewer */

struct push_sender {
    const struct service_host *host;
    const struct push_protocol *protocol;
    struct push_settings settings;
    CURLM *multi;
    CURL *easy;
    struct pollfd sockets[PUSH_MAX_SOCKETS + 1]; /* those of libcurl, and one of the caller */
    nfds_t n_sockets;
    uint64_t timer_ns; /* when libcurl must be called. UINT64_MAX: never */
    bool busy;
    bool has_head; /* the head of the answer has arrived */
    bool draining; /* the last request is over, but the end of its answer has not arrived */
    struct push_request request; /* the present one */
    size_t given;                     /* bytes of its body that libcurl has taken */
    struct curl_slist *headers;
    int redirects;
    char answer[PUSH_ANSWER_BYTES];
    size_t answer_bytes;
    char detail[PUSH_DETAIL_BYTES];
    char curl_error[CURL_ERROR_SIZE];
};

/* push_target_check() has accepted the configuration. False: no memory. */
bool push_sender_open(struct push_sender *s, const struct service_host *host, const struct push_protocol *protocol);
void push_sender_close(struct push_sender *s);

/* Instead of closing, if the program has closed all descriptors: touches neither them nor libcurl's memory. */
void push_sender_abandon(struct push_sender *s);

/* Begins to send a request, and owns it. If the end of the last answer has not arrived, that connection is closed.
 * `timeout_ms` limits the whole request. False: no memory. */
bool push_sender_start(struct push_sender *s, struct push_request *request, uint64_t timeout_ms);

/* Sends as much as possible, and sleeps until there is more to do, `fd` is readable (-1: none) or the time is over.
 * True: the request is over, and `result` is set. An accepted request is over when the head of the answer has arrived.
 * The rest of the answer is read and ignored in later calls, so that the next request can reuse the connection. Does
 * nothing if the host has no descriptors. */
bool push_sender_wait(struct push_sender *s, int fd, uint64_t timeout_ms, struct push_result *result);

/* ---- push_answer.c: what an answer means ---- */

/* Makes the result of a request that has ended. A redirect counts as refused. */
void push_answer_read(struct push_sender *s, CURLcode code, struct push_result *result);

/* Whether the server has accepted the whole request, before the end of its answer. */
bool push_answer_is_accepted(struct push_sender *s);

/* ---- The common parts of all requests: address, credentials, TLS, limits ---- */

/* Returns false after writing an error of the configuration, without secrets. */
#define PUSH_WRONG_BYTES 160
bool push_target_check(char wrong[PUSH_WRONG_BYTES], const struct push_protocol *protocol, const struct conf *conf);

/* Sets all options of a handle that are the same for all requests. False: no memory, or libcurl lacks an option. */
bool push_target_set(CURL *easy, const struct push_settings *settings);

/* Makes the headers of a request; the caller calls curl_slist_free_all(). Returns 0, -EINVAL if the configured headers
 * are wrong, or -ENOMEM. */
int push_target_headers(struct curl_slist **list, const struct push_protocol *protocol, const struct conf *conf,
                        const char *content_type, const char *content_encoding);

/* Adds a header, unless the value is NULL or "". False: no memory. */
bool push_target_header(struct curl_slist **list, const char *name, const char *value);

/* Whether the text may be the value of a header. */
bool push_target_is_value(const char *text);

/* ---- Credentials in texts that may be printed ---- */

/* Whether the text has any four consecutive characters of a credential. Credentials are those of the configuration,
 * and of the proxies that libcurl finds in the environment. True without memory. */
bool push_secrets_are_in(const struct push_settings *settings, const char *text);

#endif
