/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the page of a program, with libcurl. The library is loaded when it is needed: `jespan run --sidecar` stays small. */
#include <config.h>

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

#define MAX_ANSWER_BYTES ((size_t)1 << 30)
#define CONNECT_S 10L
#define SILENT_S 60 /* how long a program may take before the next byte, beside the time that the URL asks for */
#define PERIOD_S 30 /* that of a profile of times, if the URL does not say */

struct curl {
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_setopt) *setopt;
    __typeof__(curl_easy_perform) *perform;
    __typeof__(curl_easy_getinfo) *getinfo;
    __typeof__(curl_easy_cleanup) *cleanup;
    __typeof__(curl_slist_append) *append;
    __typeof__(curl_slist_free_all) *free_all;
};

struct answer {
    int fd;
    size_t bytes;
    int error; /* of write() */
};

static bool met_nobody;

bool fetch_met_nobody(void)
{
    return met_nobody;
}

bool fetch_is_url(const char *word)
{
    return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0 || strncmp(word, "unix:", 5) == 0;
}

static bool load(struct curl *curl)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    curl->init = (__typeof__(curl->init))dlsym(library, "curl_easy_init");
    curl->setopt = (__typeof__(curl->setopt))dlsym(library, "curl_easy_setopt");
    curl->perform = (__typeof__(curl->perform))dlsym(library, "curl_easy_perform");
    curl->getinfo = (__typeof__(curl->getinfo))dlsym(library, "curl_easy_getinfo");
    curl->cleanup = (__typeof__(curl->cleanup))dlsym(library, "curl_easy_cleanup");
    curl->append = (__typeof__(curl->append))dlsym(library, "curl_slist_append");
    curl->free_all = (__typeof__(curl->free_all))dlsym(library, "curl_slist_free_all");
    return curl->init && curl->setopt && curl->perform && curl->getinfo && curl->cleanup && curl->append && curl->free_all;
}

/* Returns less than n to end the transfer. */
static size_t write_answer(char *data, size_t one, size_t n, void *to)
{
    struct answer *answer = to;
    size_t left = one * n;
    if (answer->bytes + left > MAX_ANSWER_BYTES)
        answer->error = EFBIG;
    answer->bytes += left;
    while (left > 0 && answer->error == 0) {
        ssize_t written = write(answer->fd, data, left);
        if (written < 0 && errno != EINTR)
            answer->error = errno;
        data += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    return answer->error == 0 ? one * n : 0;
}

/* The page's URL may choose a process: "/?pid=17". Sets *pid to 0 if it does not. Returns NULL, or the reason in words. */
static const char *choose_pid(const char *query, long *pid)
{
    static char text[128];
    const char *at = query[0] == '?' ? query + 1 : "";
    for (*pid = 0; *at != '\0' && *at != '#'; at += *at == '&') {
        size_t n = strcspn(at, "&#"), digits = n > 4 && at[4] != '0' ? strspn(at + 4, "0123456789") : 0;
        bool is_pid = n >= 4 && strncmp(at, "pid=", 4) == 0;
        if (is_pid && (digits == 0 || digits != n - 4 || digits > 10 || strtol(at + 4, NULL, 10) > INT32_MAX)) {
            snprintf(text, sizeof text, "'%.*s' is not the number of a process", n < 64 ? (int)n : 64, at);
            return text;
        }
        if (is_pid)
            *pid = strtol(at + 4, NULL, 10);
        at += n;
    }
    return NULL;
}

/* How long the name of a socket is: "unix:PATH?pid=17" chooses a process, unless there is a file with all of that for its name. */
static size_t socket_chars(const char *path)
{
    return access(path, F_OK) == 0 ? strlen(path) : strcspn(path, "?");
}

/* A URL of the page, or without a path, gets the default path, for the process that the page shows. Returns NULL, or the reason
 * in words. */
static const char *complete(char *to, size_t bytes, const char *url, const char *path, long *pid)
{
    bool is_unix = strncmp(url, "unix:", 5) == 0;
    const char *host = is_unix ? url + 5 : strstr(url, "://") + 3;
    const char *rest = host + (is_unix ? socket_chars(host) : strcspn(host, "/?#"));
    const char *query = rest + strspn(rest, "/");
    bool is_page = query - rest <= 1 && (query[0] == '\0' || query[0] == '?' || query[0] == '#');
    char choice[32] = "";
    const char *wrong = choose_pid(is_page ? query : "", pid);
    if (wrong)
        return wrong;
    if (*pid)
        snprintf(choice, sizeof choice, "%cpid=%ld", strchr(path, '?') ? '&' : '?', *pid);
    int n = is_unix    ? snprintf(to, bytes, "http://localhost%s%s", path, choice)
            : !is_page ? snprintf(to, bytes, "%s", url)
                       : snprintf(to, bytes, "%.*s%s%s", (int)(rest - url), url, path, choice);
    return n >= 0 && (size_t)n < bytes ? NULL : "the URL is too long";
}

/* A program that records for a while is silent meanwhile: "?seconds=N". */
static long silence_of(const char *url)
{
    const char *at = strstr(url, "seconds=");
    long seconds = at && (at[-1] == '?' || at[-1] == '&') ? strtol(at + 8, NULL, 10) : PERIOD_S;
    return SILENT_S + (seconds < 0 ? 0 : seconds > INT32_MAX / 2 ? INT32_MAX / 2 : seconds);
}

static struct curl_slist *add_token(const struct curl *curl)
{
    char header[1100];
    const char *token = getenv("JESPAN_HTTP_TOKEN");
    if (!token || token[0] == '\0' || (size_t)snprintf(header, sizeof header, "Authorization: Bearer %s", token) >= sizeof header)
        return NULL;
    return curl->append(NULL, header);
}

static const char *describe(CURLcode code, const struct answer *answer, long status, long pid, long silence, const char *message)
{
    static char text[CURL_ERROR_SIZE + 64];
    if (answer->error != 0)
        return answer->error == EFBIG ? "the answer is longer than 1 GiB" : strerror(answer->error);
    if (code == CURLE_OPERATION_TIMEDOUT && strncmp(message, "Operation too slow", 18) == 0)
        snprintf(text, sizeof text, "connected, but nothing came for %ld s", silence);
    else if (code != CURLE_OK)
        snprintf(text, sizeof text, "%s", message[0] ? message : "the request failed");
    else if (status == 401)
        return "the program wants a token: set JESPAN_HTTP_TOKEN to its http_token";
    else if (status == 404 && pid)
        snprintf(text, sizeof text, "process %ld is not served here, or has ended; /processes has a list", pid);
    else if (status != 200)
        snprintf(text, sizeof text, "HTTP status %ld: is this the address of a program with jespan?", status);
    else
        return NULL;
    return text;
}

/* A program that ends closes its connections, also in the middle of an answer. A sidecar goes on without it. */
static bool is_nobody(CURLcode code, long status, long pid)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_PARTIAL_FILE || (code == CURLE_OK && status == 404 && pid);
}

/* libcurl would take the first word of the path for it. */
static bool has_host(const char *url)
{
    const char *host = strstr(url, "://");
    return strncmp(url, "unix:", 5) == 0 ? url[5] != '\0' && url[5] != '?' : host && host[3] != '\0' && !strchr("/:?#", host[3]);
}

const char *fetch(int fd, const char *url, const char *path, unsigned seconds)
{
    struct curl curl;
    struct answer answer = {.fd = fd};
    char whole[4096], socket_path[4096], message[CURL_ERROR_SIZE] = "";
    long status = 0, pid;
    met_nobody = false;
    if (!has_host(url))
        return "the URL has no host";
    const char *wrong = complete(whole, sizeof whole, url, path, &pid);
    if (wrong)
        return wrong;
    if (!load(&curl))
        return "libcurl.so.4 cannot be loaded";
    CURL *handle = curl.init();
    if (!handle)
        return "out of memory";
    struct curl_slist *headers = add_token(&curl);
    long silence = silence_of(whole);
    if (strncmp(url, "unix:", 5) == 0) {
        snprintf(socket_path, sizeof socket_path, "%.*s", (int)socket_chars(url + 5), url + 5);
        curl.setopt(handle, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    }
    curl.setopt(handle, CURLOPT_URL, whole);
    curl.setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl.setopt(handle, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl.setopt(handle, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl.setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.setopt(handle, CURLOPT_LOW_SPEED_TIME, silence);
    curl.setopt(handle, CURLOPT_TIMEOUT, (long)seconds);
    curl.setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl.setopt(handle, CURLOPT_ERRORBUFFER, message);
    curl.setopt(handle, CURLOPT_WRITEFUNCTION, write_answer);
    curl.setopt(handle, CURLOPT_WRITEDATA, &answer);
    CURLcode code = curl.perform(handle);
    curl.getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_COULDNT_CONNECT && strncmp(url, "unix:", 5) == 0) /* curl names localhost and a port */
        strcpy(message, "cannot connect to this socket");
    const char *reason = describe(code, &answer, status, pid, silence, message);
    met_nobody = is_nobody(code, status, pid);
    curl.cleanup(handle);
    curl.free_all(headers);
    return reason;
}
