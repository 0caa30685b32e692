/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends requests with libcurl. */
#include "push_send.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define MAX_REDIRECTS 3
#define MAX_POLL_MS 2000 /* the program may have closed the descriptors that are polled (service.h) */
#define FAILED_POLL_NS 100000000

/* Only the beginning of a long answer is read. The transfer ends there. */
static size_t keep_answer(char *data, size_t one, size_t bytes, void *sender)
{
    struct push_sender *s = sender;
    size_t left = sizeof s->answer - 1 - s->answer_bytes, n = bytes < left ? bytes : left;
    (void)one;
    memcpy(s->answer + s->answer_bytes, data, n);
    s->answer_bytes += n;
    return s->answer_bytes < sizeof s->answer - 1 ? bytes : 0;
}

/* Gets each line of a head, also the empty one at its end. Heads with status 1xx come before the head of the answer. */
static size_t note_head(char *line, size_t one, size_t bytes, void *sender)
{
    struct push_sender *s = sender;
    long status = 0;
    (void)one;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    s->has_head |= status >= 200 && bytes > 0 && (line[0] == '\r' || line[0] == '\n');
    return bytes;
}

/* If a reused connection ends without an answer, libcurl sends the request again, although the server may have stored
 * it. A body from a callback prevents that, because libcurl cannot rewind it. */
static size_t give_body(char *to, size_t one, size_t capacity, void *sender)
{
    struct push_sender *s = sender;
    size_t left = s->request.bytes - s->given, n = one * capacity < left ? one * capacity : left;
    if (n > 0)
        memcpy(to, s->request.body + s->given, n);
    s->given += n;
    return n;
}

/* ---- A request ---- */

static char *join(const char *server, const char *path)
{
    size_t n = strlen(server);
    while (n > 0 && server[n - 1] == '/')
        n--;
    char *url = malloc(n + strlen(path) + 1);
    if (url)
        strcpy((char *)memcpy(url, server, n) + n, path);
    return url;
}

/* libcurl names the sockets to wait for. curl_multi_poll() is not used, because it also reads from its own pipe. The
 * number of the pipe may belong to a file of the program by then (service.h). */
static int note_socket(CURL *easy, curl_socket_t fd, int what, void *sender, void *unused)
{
    struct push_sender *s = sender;
    nfds_t i = 0;
    (void)easy;
    (void)unused;
    while (i < s->n_sockets && s->sockets[i].fd != fd)
        i++;
    if (what == CURL_POLL_REMOVE) {
        if (i < s->n_sockets)
            s->sockets[i] = s->sockets[--s->n_sockets];
    } else if (i < PUSH_MAX_SOCKETS) {
        s->n_sockets += i == s->n_sockets;
        s->sockets[i] = (struct pollfd){
            fd, (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0)), 0};
    }
    return 0;
}

static int note_timer(CURLM *multi, long ms, void *sender)
{
    (void)multi;
    ((struct push_sender *)sender)->timer_ns = ms < 0 ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000u;
    return 0;
}

bool push_sender_open(struct push_sender *s, const struct service_host *host, const struct push_protocol *protocol)
{
    host->guard(true);
    *s = (struct push_sender){.host = host, .protocol = protocol, .timer_ns = UINT64_MAX, .multi = curl_multi_init(),
                              .easy = curl_easy_init()};
    protocol->set(&s->settings, host->conf);
    host->guard(false);
    if (!s->multi || !s->easy)
        return false;
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, note_socket);
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, note_timer);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->curl_error);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, note_head);
    curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(s->easy, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(s->easy, CURLOPT_READDATA, s);
    return push_target_set(s->easy, &s->settings);
}

static void free_request(struct push_sender *s)
{
    s->busy = s->draining = false;
    curl_slist_free_all(s->headers);
    s->headers = NULL;
    push_request_free(&s->request);
}

static void end_request(struct push_sender *s)
{
    if (s->busy || s->draining)
        curl_multi_remove_handle(s->multi, s->easy);
    free_request(s);
}

void push_sender_abandon(struct push_sender *s)
{
    s->multi = NULL;
    s->easy = NULL;
    s->n_sockets = 0;
    free_request(s);
}

void push_sender_close(struct push_sender *s)
{
    end_request(s);
    curl_easy_cleanup(s->easy);
    curl_multi_cleanup(s->multi);
}

static bool begin(struct push_sender *s)
{
    s->answer_bytes = s->given = 0;
    s->has_head = false;
    s->curl_error[0] = '\0';
    s->busy = curl_multi_add_handle(s->multi, s->easy) == CURLM_OK;
    return s->busy;
}

bool push_sender_start(struct push_sender *s, struct push_request *request, uint64_t timeout_ms)
{
    struct push_result unused;
    if (s->draining)
        push_sender_wait(s, -1, 0, &unused);
    end_request(s);
    char *url = join(s->settings.url, request->path);
    s->request = *request;
    s->redirects = 0;
    s->detail[0] = '\0';
    bool made = url
        && push_target_headers(&s->headers, s->protocol, s->host->conf, request->content_type, request->content_encoding) == 0
        && curl_easy_setopt(s->easy, CURLOPT_URL, url) == CURLE_OK
        && curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers) == CURLE_OK
        && curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->bytes) == CURLE_OK
        && curl_easy_setopt(s->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK && begin(s);
    free(url);
    if (!made)
        end_request(s);
    return made;
}

/* ---- The end of a request ---- */

static bool is_same(CURLU *a, CURLU *b, CURLUPart part)
{
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK
        && curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;
    curl_free(x);
    curl_free(y);
    return same;
}

/* Credentials are sent only to the configured scheme, host and port. */
static bool is_same_origin(const char *configured, const char *redirect)
{
    CURLU *a = curl_url(), *b = curl_url();
    bool same = a && b && curl_url_set(a, CURLUPART_URL, configured, 0) == CURLUE_OK
        && curl_url_set(b, CURLUPART_URL, redirect, 0) == CURLUE_OK && is_same(a, b, CURLUPART_SCHEME)
        && is_same(a, b, CURLUPART_HOST) && is_same(a, b, CURLUPART_PORT);
    curl_url_cleanup(a);
    curl_url_cleanup(b);
    return same;
}

/* Follows a redirect. True: the request is sent again. */
static bool follow(struct push_sender *s, struct push_result *result)
{
    char *to = NULL;
    curl_easy_getinfo(s->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || !is_same_origin(s->settings.url, to))
        return false;
    if (++s->redirects > MAX_REDIRECTS) {
        result->outcome = PUSH_FAILED;
        result->error = "too many redirects";
        return false;
    }
    curl_multi_remove_handle(s->multi, s->easy);
    s->busy = false;
    return curl_easy_setopt(s->easy, CURLOPT_URL, to) == CURLE_OK && begin(s);
}

/* Makes the result. False: the request is sent again. */
static bool judge(struct push_sender *s, CURLcode code, struct push_result *result)
{
    push_answer_read(s, code, result);
    bool is_redirect = result->status >= 300 && result->status < 400;
    return !is_redirect || !follow(s, result);
}

static bool is_over(struct push_sender *s, struct push_result *result)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(s->multi, &left));) {
        if (message->msg != CURLMSG_DONE || (s->busy && !judge(s, message->data.result, result)))
            continue;
        bool over = s->busy;
        end_request(s);
        return over;
    }
    if (!s->busy || !push_answer_is_accepted(s))
        return false;
    judge(s, CURLE_OK, result);
    s->busy = false;
    s->draining = true;
    push_request_free(&s->request);
    s->given = 0;
    return true;
}

static int events_of(short revents)
{
    return (revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) | (revents & POLLOUT ? CURL_CSELECT_OUT : 0)
        | (revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);
}

/* Connects, sends and reads as far as possible without waiting. libcurl may change the sockets during the calls. */
static void act(struct push_sender *s)
{
    struct pollfd ready[PUSH_MAX_SOCKETS];
    nfds_t n = s->n_sockets;
    int running;
    memcpy(ready, s->sockets, n * sizeof *ready);
    for (nfds_t i = 0; i < n; i++)
        if (ready[i].revents != 0)
            curl_multi_socket_action(s->multi, ready[i].fd, events_of(ready[i].revents), &running);
    if (s->timer_ns <= clock_ns(CLOCK_MONOTONIC)) {
        s->timer_ns = UINT64_MAX;
        curl_multi_socket_action(s->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

static bool go_on(struct push_sender *s, struct push_result *result)
{
    if ((!s->busy && !s->draining) || !s->host->has_descriptors(s->host))
        return false;
    s->host->guard(true);
    act(s);
    bool over = is_over(s, result);
    s->host->guard(false);
    return over;
}

static int poll_ms(const struct push_sender *s, uint64_t timeout_ms)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    uint64_t timer_ms = s->timer_ns <= now ? 0 : (s->timer_ns - now) / 1000000u + 1;
    timeout_ms = (s->busy || s->draining) && timer_ms < timeout_ms ? timer_ms : timeout_ms;
    return timeout_ms < MAX_POLL_MS ? (int)timeout_ms : MAX_POLL_MS;
}

bool push_sender_wait(struct push_sender *s, int fd, uint64_t timeout_ms, struct push_result *result)
{
    s->sockets[s->n_sockets] = (struct pollfd){fd, POLLIN, 0};
    if (poll(s->sockets, s->n_sockets + 1, poll_ms(s, timeout_ms)) < 0) {
        nanosleep(&(struct timespec){0, FAILED_POLL_NS}, NULL); /* for example: the limit of descriptors was lowered */
        for (nfds_t i = 0; i < s->n_sockets; i++)
            s->sockets[i].revents = 0;
    }
    return go_on(s, result);
}
