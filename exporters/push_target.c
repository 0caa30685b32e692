/* SPDX-License-Identifier: BSD-2-Clause */
/* The common parts of all requests: address, credentials, TLS, limits. */
#include <config.h>

#include "push_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/parse.h"

#define HIGH_FD 512

/* The socket is closed on exec. Its number is high if possible, because new files of the program get the lowest free
 * number: see has_descriptors() in service.h. */
static curl_socket_t open_socket(void *unused, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)unused;
    (void)purpose;
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    int low = descriptor_lift(socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol));
    stdio_holes_empty(&holes);
    int high = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD) : -1;
    if (high < 0)
        return low;
    close(low);
    return high;
}

bool push_target_set(CURL *easy, const struct push_settings *c)
{
    bool set = true; /* if one of these fails, a request could take another way or trust others */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name lookup */
    set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "jespan/" PACKAGE_VERSION);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (c->proxy[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PROXY, c->proxy);
    if (c->ca_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_CAINFO, c->ca_file);
    if (c->cert_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_SSLCERT, c->cert_file);
    if (c->key_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_SSLKEY, c->key_file);
    if (c->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (c->user[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_USERNAME, c->user);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PASSWORD, c->password);
    } else if (c->token[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, c->token);
    }
    return set;
}

/* ---- Headers ---- */

static bool is_token(const char *text, size_t n)
{
    static const char more[] = "!#$%&'*+-.^_`~"; /* RFC 9110, 5.6.2 */
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')
              || strchr(more, text[i])))
            return false;
    return n > 0;
}

static bool is_field_value(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' && text[i] != '\t')
            return false;
    return true;
}

static bool add_line(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
    return longer;
}

static bool add_header(struct curl_slist **list, const char *name, size_t name_bytes, const char *value, size_t bytes)
{
    char *line = malloc(name_bytes + bytes + 3);
    if (!line)
        return false;
    memcpy(line, name, name_bytes);
    memcpy(line + name_bytes, ": ", 2);
    memcpy(line + name_bytes + 2, value, bytes);
    line[name_bytes + 2 + bytes] = '\0';
    bool added = add_line(list, line);
    free(line);
    return added;
}

bool push_target_header(struct curl_slist **list, const char *name, const char *value)
{
    return !value || value[0] == '\0' || add_header(list, name, strlen(name), value, strlen(value));
}

bool push_target_is_value(const char *text)
{
    return is_field_value(text, strlen(text));
}

/* NAME=VALUE|NAME=VALUE */
static int add_configured_headers(struct curl_slist **list, const char *configured)
{
    for (struct list_item item; list_next(&configured, &item);) {
        size_t name = list_name_bytes(&item), value = item.bytes - name - 1;
        if (name == 0 || !is_token(item.text, name) || !is_field_value(item.text + name + 1, value))
            return -EINVAL;
        if (!add_header(list, item.text, name, item.text + name + 1, value))
            return -ENOMEM;
    }
    return 0;
}

int push_target_headers(struct curl_slist **list, const struct push_protocol *protocol, const struct conf *c,
                        const char *content_type, const char *content_encoding)
{
    struct push_settings settings;
    protocol->set(&settings, c);
    *list = NULL;
    int error = add_configured_headers(list, settings.headers);
    if (error == 0
        && (!push_target_header(list, "Content-Type", content_type)
            || !push_target_header(list, "Content-Encoding", content_encoding)
            || (protocol->add_headers && !protocol->add_headers(list, c))
            || !add_line(list, "Expect:"))) /* without it, curl waits for a 100 before it sends a large body */
        error = -ENOMEM;
    if (error != 0) {
        curl_slist_free_all(*list);
        *list = NULL;
    }
    return error;
}

/* ---- Checking the configuration ---- */

/* Returns NULL or an error. */
static const char *check_url(const char *url)
{
    CURLU *parsed = curl_url();
    char *scheme = NULL, *query = NULL;
    const char *wrong = NULL;
    if (!parsed)
        return "no memory";
    if (curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK
        || curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK
        || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        wrong = "not a URL such as http://HOST:PORT";
    else if (curl_url_get(parsed, CURLUPART_QUERY, &query, 0) == CURLUE_OK || strchr(url, '#'))
        wrong = "must be without ? and #";
    curl_free(scheme);
    curl_free(query);
    curl_url_cleanup(parsed);
    return wrong;
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcmp(text, *words) != 0)
        words++;
    return *words;
}

/* Checked here, because libcurl's message would contain the password. */
static const char *check_proxy(const char *proxy)
{
    static const char *const schemes[] = {"http", "https", "socks4", "socks4a", "socks5", "socks5h", NULL};
    CURLU *parsed = curl_url();
    char *scheme = NULL;
    bool good = parsed
        && curl_url_set(parsed, CURLUPART_URL, proxy, CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK
        && curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK && is_one_of(scheme, schemes);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    return good || proxy[0] == '\0' ? NULL : "not a URL such as http://HOST:PORT or socks5://HOST:PORT";
}

static const char *check_headers(const struct push_protocol *protocol, const struct conf *c)
{
    struct curl_slist *headers;
    int error = push_target_headers(&headers, protocol, c, "", NULL);
    curl_slist_free_all(headers);
    return error == 0 ? NULL : error == -EINVAL ? "not all of it is NAME=VALUE" : "no memory";
}

bool push_target_check(char wrong[PUSH_WRONG_BYTES], const struct push_protocol *protocol, const struct conf *c)
{
    struct push_settings settings;
    const char *key = "url", *own;
    protocol->set(&settings, c);
    const char *error = check_url(settings.url);
    if (!error && (error = check_proxy(settings.proxy)))
        key = "proxy";
    if (!error && protocol->check && (own = protocol->check(c))) {
        snprintf(wrong, PUSH_WRONG_BYTES, "%s", own);
        return false;
    }
    if (!error && (error = check_headers(protocol, c)))
        key = "headers";
    if (error)
        snprintf(wrong, PUSH_WRONG_BYTES, "%s_%s: %s", protocol->name, key, error);
    return !error;
}
