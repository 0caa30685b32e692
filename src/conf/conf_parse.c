/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads text such as JESPAN_CONF, and names its errors. */
#include <stddef.h>
#include <string.h>

#include "base/die.h"
#include "conf/conf.h"
#include "conf/conf_values.h"

/* ---- Messages about errors ----
 *
 * A key may be misspelled, and a comma may be missing, so any value may be a secret. Keys consist of lower-case letters
 * and underscores. Secrets seldom do. */

#define MAX_SHOWN 32

static size_t key_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz_");
}

/* The part of `text` that may be meant as a key, with "…" in place of the rest. Text that follows the key of a secret
 * is hidden, too. The result is valid until the next call. */
static const char *shown_name(const char *text)
{
    static char shown[MAX_SHOWN + sizeof "…"];
    text += strspn(text, " \t");
    size_t n = key_length(text), hidden = 0;
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        size_t length = strlen(key->name);
        if (conf_value_is_hidden(key) && !strncmp(text, key->name, length) && length > hidden)
            hidden = length;
    }
    if (hidden || n > MAX_SHOWN || !strchr(" \t=:;", text[n]))
        n = hidden;
    memcpy(shown, text, n);
    strcpy(shown + n, text[n] ? "…" : "");
    return shown;
}

/* Whether a wrong value is shown: it can only be a mistyped number or word. Words are not shown for keys of services,
 * since they may be secrets, such as a key of an API. */
static bool is_shown(const struct conf_key *key, const char *value)
{
    const char *word = value + strspn(value, " ");
    size_t n = strspn(word, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._");
    bool remote = !strncmp(key->name, "pyroscope_", 10) || !strncmp(key->name, "otlp_", 5)
        || !strncmp(key->name, "http_", 5);
    if (word[n] || n > MAX_SHOWN)
        return false;
    return !n || !remote || (key->type == CONF_NUMBER && n <= 12 && strspn(word, "0123456789+-."));
}

#define NAME_BYTES 48   /* more than any key has */
#define TYPING_ERRORS 2 /* in a name that is still taken for a key's */

static char plain(char c)
{
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The number of characters to insert, leave out or replace to turn `key` into `name`. */
static unsigned edits(const char *name, const char *key)
{
    unsigned row[NAME_BYTES], n = (unsigned)strlen(key);
    for (unsigned i = 0; i <= n; i++)
        row[i] = i;
    for (unsigned line = 0; name[line]; line++) {
        unsigned diagonal = row[0];
        row[0] = line + 1;
        for (unsigned i = 1; i <= n; i++) {
            unsigned least = diagonal + (plain(name[line]) != key[i - 1]);
            diagonal = row[i];
            least = least <= row[i] ? least : row[i] + 1;
            row[i] = least <= row[i - 1] ? least : row[i - 1] + 1;
        }
    }
    return row[n];
}

/* The name of the key that was probably meant, or NULL. */
static const char *similar_key(const char *name)
{
    const char *similar = NULL;
    unsigned least = TYPING_ERRORS + 1;
    for (const struct conf_key *key = conf_keys; key->name && strlen(name) < NAME_BYTES; key++) {
        unsigned n = edits(name, key->name);
        if (n < least && 2 * n < strlen(name)) {
            least = n;
            similar = key->name;
        }
    }
    return similar;
}

static void complain_of_key(const char *origin, const char *name)
{
    const char *similar = similar_key(name);
    CONF_WARN(origin, ": unknown key '", shown_name(name), "' is ignored", similar ? "; did you mean '" : "", similar ? similar : "",
              similar ? "'?" : "");
}

static void complain(const char *origin, const struct conf_key *key, const char *name, const char *value)
{
    char low[NUMBER_BYTES], high[NUMBER_BYTES];
    if (!key) {
        complain_of_key(origin, name);
        return;
    }
    bool shown = is_shown(key, value);
    const char *begin = shown ? ": '" : ": the value", *text = shown ? value : "", *end = shown ? "'" : "";
    if (key->type == CONF_NUMBER)
        CONF_WARN(origin, ": ", name, begin, text, end, " is not a number from ", number_text(low, key->minimum, 10), " to ",
                  number_text(high, key->maximum, 10), " and is ignored");
    else if (key->type == CONF_BOOL)
        CONF_WARN(origin, ": ", name, begin, text, end, " is neither true nor false and is ignored");
    else if (key->type == CONF_CHOICE)
        CONF_WARN(origin, ": ", name, begin, text, end, " is none of ", key->choices, " and is ignored");
    else
        CONF_WARN(origin, ": ", name, ": the value is longer than 1023 bytes and is ignored");
}

void conf_warn_item(const char *key, const char *item, const char *why)
{
    WARN(key, ": '", item, "' ", why, ", and is ignored");
}

/* ---- Pairs of key and value ---- */

const struct conf_key *conf_find(const char *name)
{
    const struct conf_key *key = conf_keys;
    while (key->name && strcmp(key->name, name))
        key++;
    return key->name ? key : NULL;
}

void conf_set(const struct conf_key *key, const char *name, const char *value, const char *origin)
{
    if (!key || conf_value_set(key, value))
        complain(origin, key, name, value);
    else if (key->offset == offsetof(struct conf, follow_fork))
        conf_follow_fork_chosen = true;
}

/* Splits "key:value" at the colon. Returns the key, or NULL where there is none. */
static const struct conf_key *split_pair(char *pair, char **value)
{
    char *colon = strchr(pair, ':');
    *value = colon ? colon + 1 : NULL;
    if (!colon)
        return NULL;
    *colon = '\0';
    return conf_find(pair);
}

/* The pair before this one in the string. A value with a comma in it continues after the comma. */
struct before {
    const struct conf_key *key; /* NULL: an unknown one */
    bool may_be_secret;
    char shown[MAX_SHOWN + sizeof "…"]; /* the part of its name that may be shown */
};

static void note_key(struct before *before, const struct conf_key *key, const char *name)
{
    before->key = key;
    before->may_be_secret = !key || conf_value_is_hidden(key);
    strcpy(before->shown, shown_name(name));
}

/* The text after the comma may be part of a secret. If it has the @ of a URL, the URL before it has only the user and a
 * part of the password, so it is deleted. */
static void complain_of_rest(const struct before *before, const char *name, bool has_at, const char *origin)
{
    const char *similar = similar_key(name);
    if (before->key && before->key->type == CONF_URL && has_at)
        conf_value_set(before->key, "");
    if (similar)
        CONF_WARN(origin, ": an unknown key similar to '", similar, "' is ignored; it is not shown, because it may be part of the value "
                  "of '", before->shown, "' before it");
    else
        CONF_WARN(origin, ": the text after the comma after '", before->shown, "' is not key:value and is ignored; it is not shown, "
                  "because it may be part of the value; a value cannot contain a comma");
}

/* Finds the key of a secret inside another key's value. There a comma is missing. */
static const struct conf_key *find_secret_within(const char *value)
{
    for (const struct conf_key *key = conf_keys; key->name; key++)
        for (const char *at = value; conf_value_is_hidden(key) && (at = strstr(at, key->name)); at++)
            if (strchr(" \t=:", at[strlen(key->name)]) && at[strlen(key->name)])
                return key;
    return NULL;
}

static void parse_pair(char *pair, struct before *before, const char *origin)
{
    char *value;
    bool has_at = strchr(pair, '@');
    const struct conf_key *key = split_pair(pair, &value), *within = value ? find_secret_within(value) : NULL;
    if (!key && before->may_be_secret) {
        complain_of_rest(before, pair, has_at, origin);
        return;
    }
    note_key(before, key, pair);
    if (!value)
        CONF_WARN(origin, ": '", before->shown, "' is not key:value and is ignored");
    else if (within && key && !conf_value_is_hidden(key)) {
        before->may_be_secret = true;
        CONF_WARN(origin, ": ", key->name, ": the value is ignored because it contains the key '", within->name,
                  "'; keys must be separated by a comma");
    } else
        conf_set(key, pair, value, origin);
}

/* As parse_pair(), for a pair that is too long; `begin` is its beginning. */
static void skip_pair(char *begin, struct before *before, const char *origin)
{
    char *value;
    const struct conf_key *key = split_pair(begin, &value);
    if (key || !before->may_be_secret)
        note_key(before, key, begin);
    if (key)
        CONF_WARN(origin, ": ", key->name, ": the value is longer than 1023 bytes and is ignored");
    else
        CONF_WARN(origin, ": a text longer than 1023 bytes between two commas is not key:value and is ignored");
}

void conf_parse(const char *text, const char *origin)
{
    char pair[CONF_STRING_BYTES + 64];
    struct before before = {0};
    while (*text) {
        size_t n = strcspn(text, ","), copied = n < sizeof pair ? n : sizeof pair - 1;
        memcpy(pair, text, copied);
        pair[copied] = '\0';
        if (copied < n)
            skip_pair(pair, &before, origin);
        else if (n)
            parse_pair(pair, &before, origin);
        text += n + (text[n] == ',');
    }
}
