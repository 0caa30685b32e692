/* SPDX-License-Identifier: BSD-2-Clause */
/* The common parts of all requests to a Pyroscope server: address, credentials, TLS, limits. */
#include <config.h>

#include "pyroscope_send.h"

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

bool pyroscope_target_set(CURL *easy, const struct conf *c)
{
    bool set = true; /* if one of these fails, a request could take another way or trust others */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name lookup */
    set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "jespan/" PACKAGE_VERSION);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)c->pyroscope_connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (c->pyroscope_proxy[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PROXY, c->pyroscope_proxy);
    if (c->pyroscope_ca_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_CAINFO, c->pyroscope_ca_file);
    if (c->pyroscope_cert_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_SSLCERT, c->pyroscope_cert_file);
    if (c->pyroscope_key_file[0] != '\0')
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_SSLKEY, c->pyroscope_key_file);
    if (c->pyroscope_insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (c->pyroscope_user[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_USERNAME, c->pyroscope_user);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_PASSWORD, c->pyroscope_password);
    } else if (c->pyroscope_token[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        set &= CURLE_OK == curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, c->pyroscope_token);
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

static bool add_text_header(struct curl_slist **list, const char *name, const char *value)
{
    return !value || value[0] == '\0' || add_header(list, name, strlen(name), value, strlen(value));
}

/* NAME=VALUE|NAME=VALUE */
static const char *add_configured_headers(struct curl_slist **list, const char *configured)
{
    for (struct list_item item; list_next(&configured, &item);) {
        size_t name = list_name_bytes(&item), value = item.bytes - name - 1;
        if (name == 0 || !is_token(item.text, name) || !is_field_value(item.text + name + 1, value))
            return "pyroscope_headers: not all of it is NAME=VALUE";
        if (!add_header(list, item.text, name, item.text + name + 1, value))
            return "no memory";
    }
    return NULL;
}

const char *pyroscope_target_headers(struct curl_slist **list, const struct conf *c, const char *content_type,
                                     const char *content_encoding)
{
    *list = NULL;
    const char *wrong = add_configured_headers(list, c->pyroscope_headers);
    if (!wrong
        && (!add_text_header(list, "X-Scope-OrgID", c->pyroscope_tenant)
            || !add_text_header(list, "Content-Type", content_type)
            || !add_text_header(list, "Content-Encoding", content_encoding)
            || (c->pyroscope_api == PYROSCOPE_PUSH && !add_text_header(list, "Connect-Protocol-Version", "1"))
            || !add_line(list, "Expect:"))) /* without it, curl waits for a 100 before it sends a large body */
        wrong = "no memory";
    if (wrong) {
        curl_slist_free_all(*list);
        *list = NULL;
    }
    return wrong;
}

/* ---- Checking the configuration ---- */

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
        wrong = "pyroscope_url: not a URL such as http://HOST:PORT";
    else if (curl_url_get(parsed, CURLUPART_QUERY, &query, 0) == CURLUE_OK || strchr(url, '#'))
        wrong = "pyroscope_url: must be without ? and #";
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
    return good || proxy[0] == '\0' ? NULL : "pyroscope_proxy: not a URL such as http://HOST:PORT or socks5://HOST:PORT";
}

static const char *check_credentials(const struct conf *c)
{
    if (c->pyroscope_user[0] != '\0' && c->pyroscope_token[0] != '\0')
        return "pyroscope_user and pyroscope_token: there can only be one of them";
    if (c->pyroscope_user[0] == '\0' && c->pyroscope_password[0] != '\0')
        return "pyroscope_password: there is no pyroscope_user";
    if (!is_field_value(c->pyroscope_tenant, strlen(c->pyroscope_tenant)))
        return "pyroscope_tenant: not a value for a header";
    return NULL;
}

const char *pyroscope_target_check(const struct conf *c)
{
    struct curl_slist *headers = NULL;
    const char *wrong = check_url(c->pyroscope_url);
    if (!wrong)
        wrong = check_proxy(c->pyroscope_proxy);
    if (!wrong)
        wrong = check_credentials(c);
    if (!wrong)
        wrong = pyroscope_target_headers(&headers, c, "", NULL);
    curl_slist_free_all(headers);
    return wrong;
}
