/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of keys: from text, and to text that may be shown. */
#include "conf/conf_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/parse.h"

static void *field(const struct conf_key *key)
{
    return (char *)&conf + key->offset;
}

static int set_number(const struct conf_key *key, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    unsigned long long n = 0;
    for (end = (char *)text; *end >= '0' && *end <= '9'; end++)
        if (__builtin_mul_overflow(n, 10ull, &n) || __builtin_add_overflow(n, (unsigned)(*end - '0'), &n))
            return -1;
    if (*end || n < key->minimum || n > key->maximum)
        return -1;
    *(uint64_t *)field(key) = n;
    return 0;
}

static int set_choice(const struct conf_key *key, const char *text)
{
    int i = list_find(key->choices, text);
    if (i < 0)
        return -1;
    *(uint64_t *)field(key) = (uint64_t)i;
    return 0;
}

int conf_value_set(const struct conf_key *key, const char *text)
{
    switch (key->type) {
    case CONF_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return -1;
        *(bool *)field(key) = text[0] == 't';
        return 0;
    case CONF_NUMBER:
        return set_number(key, text);
    case CONF_STRING:
    case CONF_SECRET:
    case CONF_URL:
        if (strlen(text) >= CONF_STRING_BYTES)
            return -1;
        if (text[0] || *(char *)field(key)) /* an empty default does not touch the page */
            strcpy(field(key), text);
        return 0;
    case CONF_CHOICE:
        return set_choice(key, text);
    }
    return -1;
}

/* ---- Values as text ---- */

static const char *choice_text(const struct conf_key *key, char *text, size_t bytes)
{
    struct list_item choice;
    const char *rest = key->choices;
    for (uint64_t i = 0; list_next(&rest, &choice) && i < *(uint64_t *)field(key); i++)
        ;
    jespan_assert(choice.bytes < bytes);
    *(char *)mempcpy(text, choice.text, choice.bytes) = '\0';
    return text;
}

/* Whether the text is HOST, HOST:PORT or [ADDRESS]:PORT, perhaps with a path. */
static bool is_authority(const char *text)
{
    size_t n = text[0] == '[' ? strspn(text + 1, "0123456789abcdefABCDEF:.") + 1
                              : strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_");
    if (text[0] == '[' && text[n++] != ']')
        return false;
    if (n && text[n] == ':')
        n += 1 + strspn(text + n + 1, "0123456789");
    return n && (!text[n] || text[n] == '/') && !strpbrk(text + n, "?#");
}

/* The URL without user and password. These stand between the scheme and the last @, since a password may hold any
 * character that should have been encoded. If the rest is no address, it may be a password too, and is not shown. */
static const char *url_without_user(const char *url)
{
    static char shown[CONF_STRING_BYTES + 8];
    const char *at = strrchr(url, '@'), *host = strstr(url, "://");
    size_t scheme = host && host - url == (ptrdiff_t)strspn(url, "abcdefghijklmnopqrstuvwxyz_") ? (size_t)(host - url) + 3 : 0;
    if (!url[0])
        return url;
    const char *rest = at ? at + 1 : url + scheme;
    bool plain = !*rest || (is_authority(rest) && (at || scheme || strchr(rest, ':')));
    memcpy(shown, url, scheme);
    strcpy(shown + scheme, at ? "***@" : "");
    strcat(shown, plain ? rest : "***");
    return shown;
}

const char *conf_value_text(const struct conf_key *key, char number[NUMBER_BYTES])
{
    const char *text = field(key);
    switch (key->type) {
    case CONF_BOOL:
        return *(bool *)field(key) ? "true" : "false";
    case CONF_NUMBER:
        return number_text(number, *(uint64_t *)field(key), 10);
    case CONF_CHOICE:
        return choice_text(key, number, NUMBER_BYTES);
    case CONF_SECRET:
        return *text ? "***" : text;
    case CONF_URL:
        return url_without_user(text);
    case CONF_STRING:
        return text;
    }
    return text;
}
