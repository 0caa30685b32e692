/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads JSON (RFC 8259), in place. Commas may be missing, since nobody is told about them. */
#include "json.h"

#include <string.h>

#define MAX_DEPTH 64

static char peek(struct json *j)
{
    while (!j->failed && j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
        j->at++;
    return j->failed || j->at == j->end ? '\0' : *j->at;
}

static bool take(struct json *j, char c)
{
    bool is_there = peek(j) == c && c != '\0';
    j->at += is_there;
    return is_there;
}

static void expect(struct json *j, char c)
{
    j->failed |= !take(j, c);
}

/* ---- Texts ---- */

static unsigned read_hex(struct json *j)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = j->at < j->end && *j->at != '\0' ? strchr(digits, *j->at) : NULL;
        j->failed |= !digit;
        value = value << 4 | (digit ? (unsigned)(digit - digits) & 15 : 0);
        j->at += digit != NULL;
    }
    return value;
}

/* A NUL would end the text, so it becomes '?', as half a pair does. */
static char *put_code(char *to, unsigned c)
{
    if (c == 0 || (c >= 0xd800 && c < 0xe000))
        c = '?';
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *to++ = (char)((0xffu << (7 - more) & 0xff) | c >> 6 * more);
    while (more-- > 0)
        *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

/* An escape is at least as long as what it stands for. */
static char *read_escape(struct json *j, char *to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = *j->at++;
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    if (letter) {
        *to = meanings[letter - letters];
        return to + 1;
    }
    j->failed |= c != 'u';
    unsigned code = j->failed ? 0 : read_hex(j);
    if (code >= 0xd800 && code < 0xdc00 && j->end - j->at >= 6 && j->at[0] == '\\' && j->at[1] == 'u') {
        j->at += 2;
        code = 0x10000 + ((code & 0x3ff) << 10) + (read_hex(j) & 0x3ff);
    }
    return put_code(to, code);
}

const char *json_text(struct json *j)
{
    expect(j, '"');
    char *text = j->at, *to = j->at;
    while (!j->failed && j->at < j->end && *j->at != '"') {
        if (*j->at != '\\')
            *to++ = *j->at++;
        else if (++j->at < j->end)
            to = read_escape(j, to);
    }
    j->failed |= j->at == j->end;
    if (j->failed)
        return "";
    j->at++;
    *to = '\0';
    return text;
}

/* ---- Other values ---- */

uint64_t json_number(struct json *j)
{
    uint64_t value = 0;
    char first = peek(j);
    bool is_negative = first == '-';
    j->failed |= !is_negative && !(first >= '0' && first <= '9');
    for (j->at += is_negative; !j->failed && j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (unsigned)(*j->at - '0'), &value))
            value = UINT64_MAX; /* it stays there */
    while (!j->failed && j->at < j->end && *j->at != '\0' && strchr(".eE+-0123456789", *j->at))
        j->at++;
    return j->failed || is_negative ? 0 : value;
}

void json_open(struct json *j, char bracket)
{
    expect(j, bracket);
}

static bool has_more(struct json *j, char closing)
{
    take(j, ',');
    if (take(j, closing))
        return false;
    j->failed |= peek(j) == '\0';
    return !j->failed;
}

const char *json_key(struct json *j)
{
    if (!has_more(j, '}'))
        return NULL;
    const char *key = json_text(j);
    expect(j, ':');
    return j->failed ? NULL : key;
}

bool json_item(struct json *j)
{
    return has_more(j, ']');
}

static void skip_word(struct json *j)
{
    char *begin = j->at;
    while (j->at < j->end && *j->at >= 'a' && *j->at <= 'z')
        j->at++;
    j->failed |= begin == j->at;
}

bool json_true(struct json *j)
{
    bool is_true = peek(j) == 't';
    json_skip(j);
    return is_true && !j->failed;
}

void json_skip(struct json *j)
{
    char first = peek(j);
    j->failed |= ++j->depth > MAX_DEPTH;
    if (first == '{') {
        json_open(j, '{');
        while (json_key(j))
            json_skip(j);
    } else if (first == '[') {
        json_open(j, '[');
        while (json_item(j))
            json_skip(j);
    } else if (first == '"') {
        json_text(j);
    } else if (first == '-' || (first >= '0' && first <= '9')) {
        json_number(j);
    } else {
        skip_word(j);
    }
    j->depth--;
}
