/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending requests to a Pyroscope server with libcurl, one at a time, without ever waiting for it: sending goes on in
 * pyroscope_sender_wait(). */
#ifndef JESPAN_PYROSCOPE_SEND_H
#define JESPAN_PYROSCOPE_SEND_H

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pyroscope_request.h"
#include "report/service.h"

#define PYROSCOPE_ANSWER_BYTES 16384 /* a longer answer is not looked at */
#define PYROSCOPE_DETAIL_BYTES 300   /* of an answer are shown at most */

enum pyroscope_outcome {
    PYROSCOPE_ACCEPTED,
    PYROSCOPE_REFUSED, /* it will never be accepted as it is */
    PYROSCOPE_FAILED,  /* it may be accepted later */
};

struct pyroscope_result {
    enum pyroscope_outcome outcome;
    long status;             /* HTTP's; 0: no answer */
    uint64_t retry_after_s;  /* as the server asks; 0: it does not */
    uint64_t latency_ns;
    bool may_be_there;       /* it failed, but the server had all of it, and may have stored it */
    bool cut;                /* the connection ended without an answer */
    bool too_large;          /* refused for its size; a smaller one may be accepted */
    const char *error;       /* in a few words; NULL: accepted. Stays for good */
    const char *detail;      /* more of it, without anything secret, or ""; until the next request */
    const char *answer;      /* all of the server's answer, for nobody's eyes; "": it is too long, or there was none. As detail */
};

#define PYROSCOPE_MAX_SOCKETS 8 /* a connection, one that is tried beside it, and the look-up of a name */

struct pyroscope_sender {
    const struct service_host *host;
    const struct conf *conf;
    CURLM *multi;
    CURL *easy;
    struct pollfd sockets[PYROSCOPE_MAX_SOCKETS + 1]; /* what libcurl waits for, and a place for the caller's */
    nfds_t n_sockets;
    uint64_t timer_ns; /* when libcurl wants to be called; UINT64_MAX: never */
    bool busy;
    bool has_head; /* the answer's head is here */
    bool draining; /* the last request is over, but the end of its answer is not here yet */
    struct pyroscope_request request; /* under way */
    size_t given;                     /* bytes of its body that libcurl has */
    struct curl_slist *headers;
    int redirects;
    char answer[PYROSCOPE_ANSWER_BYTES];
    size_t answer_bytes;
    char detail[PYROSCOPE_DETAIL_BYTES];
    char curl_error[CURL_ERROR_SIZE];
};

/* The configuration is one that pyroscope_target_check() found good. False: no memory. */
bool pyroscope_sender_open(struct pyroscope_sender *s, const struct service_host *host);
void pyroscope_sender_close(struct pyroscope_sender *s);

/* Instead, where the process's descriptors are no longer what they were: leaves them alone, and libcurl's memory with
 * them. */
void pyroscope_sender_abandon(struct pyroscope_sender *s);

/* Begins to send; takes the request over. An answer whose end is not here yet is given up, and its connection with it. `timeout_ms` is for all of it. False: no memory. */
bool pyroscope_sender_start(struct pyroscope_sender *s, struct pyroscope_request *request, uint64_t timeout_ms);

/* Sends what can be sent, and sleeps until there is more to do, `fd` is readable (-1: none) or the time is up. True when the
 * request is over; then `result` says how. A request that was accepted is over when the head of the answer is here. The
 * rest of the answer is read, and thrown away, while the caller waits for other things: then the next request finds the
 * connection open. Where the host has no descriptors any more it does nothing. */
bool pyroscope_sender_wait(struct pyroscope_sender *s, int fd, uint64_t timeout_ms, struct pyroscope_result *result);

#endif
