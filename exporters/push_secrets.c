/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds credentials in texts that may be printed. An answer may quote the request with its credentials.
 *
 * A server may quote a part of a credential, and in another spelling: in base64, in lower case, with %XX or \u00XX,
 * with other punctuation. So only letters and digits are compared, in the text and in the decoded text. A harmless
 * text that looks like a credential is not printed either. */
#include "push_send.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/parse.h"

#define PART 4 /* so many characters of a credential must not be printed */

/* ---- Comparing texts ---- */

struct text {
    const char *raw;
    char *plain;   /* letters in lower case, and digits */
    char *decoded; /* the same of the decoded text */
};

static int hex_digits(const char *text, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Returns the character at the start of the text, and its length. */
static int read_character(const char *text, bool decode, size_t *bytes)
{
    int value = -1;
    *bytes = 1;
    if (decode && text[0] == '%' && (value = hex_digits(text + 1, 2)) > 0)
        *bytes = 3;
    else if (decode && text[0] == '\\' && text[1] == 'u' && (value = hex_digits(text + 2, 4)) > 0)
        *bytes = 6;
    return *bytes > 1 ? value : (unsigned char)text[0];
}

static char *make_plain(const char *text, bool decode)
{
    char *plain = malloc(strlen(text) + 1), *to = plain;
    for (size_t bytes; plain && *text != '\0'; text += bytes) {
        int c = read_character(text, decode, &bytes);
        if (c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 0x80 && c <= 0xff))
            *to++ = (char)c;
    }
    if (plain)
        *to = '\0';
    return plain;
}

static bool shares_part(const char *text, const char *secret)
{
    char part[PART + 1] = "";
    for (size_t n = strlen(secret), i = 0; i + PART <= n; i++)
        if (strstr(text, memcpy(part, secret + i, PART)))
            return true;
    return false;
}

static bool is_in(const struct text *text, const char *secret)
{
    if (secret[0] == '\0')
        return false;
    char *plain = make_plain(secret, false);
    bool there = !plain || strstr(text->raw, secret) || shares_part(text->raw, secret)
        || shares_part(text->plain, plain) || shares_part(text->decoded, plain);
    free(plain);
    return there;
}

/* ---- Credentials ---- */

/* Encodes as in the header of basic authentication. A server may quote it without the padding. */
static char *make_base64(const char *user, const char *password)
{
    size_t n = strlen(user) + 1 + strlen(password);
    char *pair = malloc(n + 1), *base64 = malloc(base64_bytes(n) + 1);
    if (pair && base64) {
        sprintf(pair, "%s:%s", user, password);
        base64_encode(base64, pair, n);
        base64[base64_bytes(n)] = '\0';
        base64[strcspn(base64, "=")] = '\0';
    } else {
        free(base64);
        base64 = NULL;
    }
    free(pair);
    return base64;
}

static bool has_pair(const struct text *text, const char *user, const char *password)
{
    if (password[0] == '\0')
        return false;
    char *base64 = make_base64(user, password);
    bool there = !base64 || is_in(text, password) || is_in(text, base64);
    free(base64);
    return there;
}

/* A user without a password may be a token. In a text that is no URL, everything before an @ may be secret. */
static bool has_user_of(const struct text *text, const char *url)
{
    char userinfo[CONF_STRING_BYTES], *user = NULL, *password = NULL;
    const char *at = strrchr(url, '@'), *begin = strstr(url, "://");
    CURLU *parsed = curl_url();
    bool there = false;
    if (parsed && curl_url_set(parsed, CURLUPART_URL, url, CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK
        && curl_url_get(parsed, CURLUPART_USER, &user, CURLU_URLDECODE) == CURLUE_OK
        && curl_url_get(parsed, CURLUPART_PASSWORD, &password, CURLU_URLDECODE) == CURLUE_OK) {
        there = has_pair(text, user, password);
    } else if (at) {
        begin = begin && begin < at ? begin + 3 : url;
        snprintf(userinfo, sizeof userinfo, "%.*s", (int)(at - begin), begin);
        there = is_in(text, userinfo);
    }
    curl_free(user);
    curl_free(password);
    curl_url_cleanup(parsed);
    return there;
}

static bool has_header_value(const struct text *text, const char *configured)
{
    char value[CONF_STRING_BYTES];
    for (struct list_item item; list_next(&configured, &item);) {
        size_t name = strcspn(item.text, "=|") + 1;
        snprintf(value, sizeof value, "%.*s", name < item.bytes ? (int)(item.bytes - name) : 0, item.text + name);
        if (is_in(text, value))
            return true;
    }
    return false;
}

static bool has_user_of_environment(const struct text *text)
{
    static const char *const variables[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *url = getenv(variables[i]);
        if (url && has_user_of(text, url))
            return true;
    }
    return false;
}

bool push_secrets_are_in(const struct push_settings *c, const char *raw)
{
    const struct text text = {raw, make_plain(raw, false), make_plain(raw, true)};
    bool there = !text.plain || !text.decoded || is_in(&text, c->token)
        || is_in(&text, c->password) || has_pair(&text, c->user, c->password)
        || has_user_of(&text, c->url) || has_user_of(&text, c->proxy)
        || has_header_value(&text, c->headers) || has_user_of_environment(&text);
    free(text.plain);
    free(text.decoded);
    return there;
}
