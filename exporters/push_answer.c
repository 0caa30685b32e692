/* SPDX-License-Identifier: BSD-2-Clause */
/* The meaning of a server's answer. */
#include <stdio.h>
#include <string.h>

#include "push_send.h"

#define MAX_RETRY_AFTER_S 3600

/* Returns "HTTP 503", made at the first use. */
static const char *status_text(long status)
{
    static char texts[600][sizeof "HTTP 000"];
    char *text = texts[status > 0 && status < 600 ? status : 0];
    if (text[0] == '\0')
        snprintf(text, sizeof texts[0], "HTTP %03ld", status > 0 && status < 600 ? status : 0);
    return text;
}

/* Answers with these statuses may quote the refused credentials. */
static bool is_about_credentials(long status)
{
    return status == 401 || status == 403 || status == 407;
}

/* Makes the detail: the message of libcurl, or the first line of the answer. The whole answer is checked for secrets
 * before it is cut, because a part of a secret cannot be recognised. */
static void describe(struct push_sender *s, const struct push_result *result)
{
    const char *text = s->answer_bytes == 0 ? s->curl_error : result->answer;
    size_t n = 0;
    while ((unsigned char)text[n] >= ' ' && (unsigned char)text[n] < 0x7f)
        n++;
    if (is_about_credentials(result->status) || n == 0)
        s->detail[0] = '\0';
    else if (push_secrets_are_in(&s->settings, text))
        strcpy(s->detail, "(the answer is not shown, as it may quote credentials)");
    else
        snprintf(s->detail, sizeof s->detail, "%.*s", (int)n, text);
}

static const char *content_type(const struct push_sender *s)
{
    char *type = NULL;
    curl_easy_getinfo(s->easy, CURLINFO_CONTENT_TYPE, &type);
    return type;
}

static bool is_own(const struct push_sender *s)
{
    return s->protocol->is_own(content_type(s), s->host->conf);
}

/* libcurl has several codes for a connection that ended. On a reused connection it reports its failed attempt to send
 * again. */
static bool is_cut(CURLcode code)
{
    return code == CURLE_SEND_FAIL_REWIND || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR
        || code == CURLE_GOT_NOTHING;
}

/* A server stores nothing if the body, whose length it knows, was not sent completely. 503 means that it handles no
 * requests. After other errors the server, or a proxy before it, may have stored the body. */
static bool may_be_there(struct push_sender *s, CURLcode code, long status)
{
    curl_off_t uploaded = 0;
    curl_easy_getinfo(s->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    if (status < 200)
        return code == CURLE_SEND_FAIL_REWIND || (s->request.bytes > 0 && (uint64_t)uploaded >= s->request.bytes);
    return status < 300 ? code != CURLE_OK : status >= 500 && status != 503;
}

/* The rest of the answer may be cut, or never end. */
void push_answer_read(struct push_sender *s, CURLcode code, struct push_result *result)
{
    curl_off_t microseconds = 0, retry_after_s = 0;
    s->answer[s->answer_bytes] = '\0';
    *result = (struct push_result){.outcome = PUSH_FAILED, .answer = code == CURLE_OK ? s->answer : ""};
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &result->status);
    curl_easy_getinfo(s->easy, CURLINFO_TOTAL_TIME_T, &microseconds);
    curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    result->latency_ns = (uint64_t)microseconds * 1000;
    result->detail = s->detail;
    if (s->protocol->read && code == CURLE_OK && (result->status < 300 || result->status >= 400))
        s->protocol->read(s, content_type(s), result);
    describe(s, result);
    if (result->status < 200) {
        result->cut = is_cut(code);
        result->error = result->cut ? "the connection ended without an answer" : curl_easy_strerror(code);
    } else if (result->status < 300) {
        if (is_own(s))
            result->outcome = PUSH_ACCEPTED;
        else
            result->error = s->protocol->not_own;
    } else if (result->status < 400) {
        result->outcome = PUSH_REFUSED;
        result->error = "a redirect that is not followed";
    } else {
        result->error = status_text(result->status);
        result->outcome = s->protocol->is_passing(result->status) ? PUSH_FAILED : PUSH_REFUSED;
        result->too_large = s->protocol->is_too_large(result->status, result->answer);
        if (retry_after_s > 0) /* negative: a date in the past */
            result->retry_after_s = retry_after_s < MAX_RETRY_AFTER_S ? (uint64_t)retry_after_s : MAX_RETRY_AFTER_S;
    }
    result->may_be_there = result->outcome == PUSH_FAILED && may_be_there(s, code, result->status);
}

bool push_answer_is_accepted(struct push_sender *s)
{
    long status = 0;
    curl_off_t uploaded = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(s->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    return s->has_head && !s->protocol->read && status >= 200 && status < 300 && (uint64_t)uploaded >= s->request.bytes && is_own(s);
}
