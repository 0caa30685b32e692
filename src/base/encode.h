/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodings that several parts share: strings of JSON, base64, hexadecimal digits, and %XX. Modules call no functions of the library, so
 * all of it is inline. */
#ifndef JESPAN_ENCODE_H
#define JESPAN_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Strings of JSON (RFC 8259) ---- */

#define JSON_ESCAPE_BYTES sizeof "\\u0000"

/* Returns the escape sequence of an ASCII character, perhaps in `buffer`, or NULL if the character needs none. */
static inline const char *json_escape(unsigned char c, char buffer[JSON_ESCAPE_BYTES])
{
    if (c == '"')
        return "\\\"";
    if (c == '\\')
        return "\\\\";
    if (c >= ' ' && c != 0x7F)
        return NULL;
    snprintf(buffer, JSON_ESCAPE_BYTES, "\\u%04x", c);
    return buffer;
}

/* ---- Base64 (RFC 4648) ---- */

/* How many characters n bytes take, with the padding. */
static inline size_t base64_bytes(size_t n)
{
    return (n + 2) / 3 * 4;
}

/* Encodes n bytes, with padding and without a NUL. Three bytes become four characters of 6 bits each. */
static inline void base64_encode(char *to, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t three = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (left > 2 ? from[i + 2] : 0);
        *to++ = digits[three >> 18];
        *to++ = digits[three >> 12 & 63];
        *to++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[three & 63] : '=';
    }
}

/* ---- Hexadecimal digits ---- */

/* Encodes n bytes as 2 * n digits, and a NUL. */
static inline void hex_encode(char *to, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n; i++) {
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
    *to = '\0';
}

/* ---- %XX (RFC 3986) ---- */

static inline int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes %XX in place, and leaves %00 out. Other text is unchanged. */
static inline void percent_decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        bool coded = from[0] == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0;
        char c = coded ? (char)(hex_digit(from[1]) << 4 | hex_digit(from[2])) : *from;
        from += coded ? 2 : 0;
        if (c != '\0')
            *to++ = c;
    }
    *to = '\0';
}

#endif
