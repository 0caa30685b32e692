/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends requests to a Pyroscope server with libcurl, one at a time. Sending continues in pyroscope_sender_wait() and
 * never blocks elsewhere. */
#ifndef JESPAN_PYROSCOPE_SEND_H
#define JESPAN_PYROSCOPE_SEND_H

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "pyroscope_request.h"
#include "report/service.h"

#define PYROSCOPE_ANSWER_BYTES 16384 /* the longest answer that is read */
#define PYROSCOPE_DETAIL_BYTES 300   /* the longest part of an answer that is shown */

enum pyroscope_outcome {
    PYROSCOPE_ACCEPTED,
    PYROSCOPE_REFUSED, /* the server will never accept it unchanged */
    PYROSCOPE_FAILED,  /* the server may accept it later */
};

struct pyroscope_result {
    enum pyroscope_outcome outcome;
    long status;             /* of HTTP. 0: no answer */
    uint64_t retry_after_s;  /* as the server asks. 0: it does not */
    uint64_t latency_ns;
    bool may_be_there;       /* it failed, but the server received all of it and may have stored it */
    bool cut;                /* the connection ended without an answer */
    bool too_large;          /* refused for its size: a smaller request may be accepted */
    const char *error;       /* a short text, never freed. NULL: accepted */
    const char *detail;      /* more about the error, without secrets, or "". Valid until the next request */
    const char *answer;      /* the whole answer, which may have secrets. "": too long, or none. Valid as long as detail */
};

#define PYROSCOPE_MAX_SOCKETS 8 /* a connection, a parallel attempt, and a name lookup need fewer */

struct pyroscope_sender {
    const struct service_host *host;
    const struct conf *conf;
    CURLM *multi;
    CURL *easy;
    struct pollfd sockets[PYROSCOPE_MAX_SOCKETS + 1]; /* those of libcurl, and one of the caller */
    nfds_t n_sockets;
    uint64_t timer_ns; /* when libcurl must be called. UINT64_MAX: never */
    bool busy;
    bool has_head; /* the head of the answer has arrived */
    bool draining; /* the last request is over, but the end of its answer has not arrived */
    struct pyroscope_request request; /* the present one */
    size_t given;                     /* bytes of its body that libcurl has taken */
    struct curl_slist *headers;
    int redirects;
    char answer[PYROSCOPE_ANSWER_BYTES];
    size_t answer_bytes;
    char detail[PYROSCOPE_DETAIL_BYTES];
    char curl_error[CURL_ERROR_SIZE];
};

/* pyroscope_target_check() has accepted the configuration. False: no memory. */
bool pyroscope_sender_open(struct pyroscope_sender *s, const struct service_host *host);
void pyroscope_sender_close(struct pyroscope_sender *s);

/* Instead of closing, if the program has closed all descriptors: touches neither them nor libcurl's memory. */
void pyroscope_sender_abandon(struct pyroscope_sender *s);

/* Begins to send a request, and owns it. If the end of the last answer has not arrived, that connection is closed.
 * `timeout_ms` limits the whole request. False: no memory. */
bool pyroscope_sender_start(struct pyroscope_sender *s, struct pyroscope_request *request, uint64_t timeout_ms);

/* Sends as much as possible, and sleeps until there is more to do, `fd` is readable (-1: none) or the time is over.
 * True: the request is over, and `result` is set. An accepted request is over when the head of the answer has arrived.
 * The rest of the answer is read and ignored in later calls, so that the next request can reuse the connection. Does
 * nothing if the host has no descriptors. */
bool pyroscope_sender_wait(struct pyroscope_sender *s, int fd, uint64_t timeout_ms, struct pyroscope_result *result);

/* ---- pyroscope_answer.c: what an answer means ---- */

/* Makes the result of a request that has ended. A redirect counts as refused. */
void pyroscope_answer_read(struct pyroscope_sender *s, CURLcode code, struct pyroscope_result *result);

/* Whether the server has accepted the whole request, before the end of its answer. */
bool pyroscope_answer_is_accepted(struct pyroscope_sender *s);

/* ---- The common parts of all requests: address, credentials, TLS, limits ---- */

/* Returns NULL, or an error of the configuration as a short text without secrets. */
const char *pyroscope_target_check(const struct conf *conf);

/* Sets all options of a handle that are the same for all requests. False: no memory, or libcurl lacks an option. */
bool pyroscope_target_set(CURL *easy, const struct conf *conf);

/* Makes the headers of a request; the caller calls curl_slist_free_all(). Returns NULL, or the error as a text. */
const char *pyroscope_target_headers(struct curl_slist **list, const struct conf *conf, const char *content_type,
                                     const char *content_encoding);

/* ---- Credentials in texts that may be printed ---- */

/* Whether the text has any four consecutive characters of a credential. Credentials are those of the configuration,
 * and of the proxies that libcurl finds in the environment. True without memory. */
bool pyroscope_secrets_are_in(const struct conf *conf, const char *text);

#endif
