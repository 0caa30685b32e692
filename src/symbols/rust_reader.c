/* SPDX-License-Identifier: BSD-2-Clause */
/* The letters, numbers and identifiers of a name of Rust, and the text that is made of it. */
#include "rust_reader.h"

#include <string.h>

void rust_fail(struct rust_reader *r)
{
    r->failed = true;
}

void rust_put(struct rust_reader *r, const char *text, size_t n)
{
    if (r->silent || r->failed)
        return;
    n = n < r->room - r->used ? n : r->room - r->used;
    memcpy(r->to + r->used, text, n);
    r->used += n;
}

void rust_put_text(struct rust_reader *r, const char *text)
{
    rust_put(r, text, strlen(text));
}

char rust_peek(const struct rust_reader *r)
{
    return r->failed || r->at >= r->n ? '\0' : r->name[r->at];
}

bool rust_take(struct rust_reader *r, char c)
{
    bool is = rust_peek(r) == c && c != '\0';
    r->at += is;
    return is;
}

char rust_next(struct rust_reader *r)
{
    char c = rust_peek(r);
    r->at++;
    if (c == '\0')
        rust_fail(r);
    return c;
}

/* The list of items up to an E. Returns whether there is another item; a full text needs no more. */
bool rust_has_item(struct rust_reader *r)
{
    if (++r->steps > RUST_MAX_STEPS)
        rust_fail(r);
    return !r->failed && !rust_take(r, 'E');
}

/* --- Numbers and identifiers -------------------------------------------------------------------------------------------- */

static uint64_t rust_decimal(struct rust_reader *r)
{
    uint64_t number = 0;
    if (rust_peek(r) < '0' || rust_peek(r) > '9')
        rust_fail(r);
    if (rust_take(r, '0'))
        return 0;
    while (rust_peek(r) >= '0' && rust_peek(r) <= '9' && number < UINT32_MAX)
        number = number * 10 + (uint64_t)(rust_next(r) - '0');
    return number;
}

/* "_" is 0, "0_" is 1. */
uint64_t rust_base62(struct rust_reader *r)
{
    uint64_t number = 0;
    if (rust_take(r, '_'))
        return 0;
    for (char c; !rust_take(r, '_') && !r->failed;) {
        c = rust_next(r);
        number = number * 62
            + (uint64_t)(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : c >= 'A' && c <= 'Z' ? c - 'A' + 36 : 0);
    }
    return number + 1;
}

uint64_t rust_optional_base62(struct rust_reader *r, char tag)
{
    return rust_take(r, tag) ? rust_base62(r) + 1 : 0;
}

struct rust_identifier rust_identifier(struct rust_reader *r)
{
    struct rust_identifier identifier = {.disambiguator = rust_optional_base62(r, 's')};
    rust_take(r, 'u'); /* punycode, which is shown as it is */
    uint64_t n = rust_decimal(r);
    rust_take(r, '_');
    if (r->failed || n > r->n || r->at > r->n - n) {
        rust_fail(r);
        return (struct rust_identifier){"", 0, 0};
    }
    identifier.text = r->name + r->at;
    identifier.n = n;
    r->at += n;
    return identifier;
}
