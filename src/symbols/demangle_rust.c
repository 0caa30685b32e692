/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of Rust in its present scheme. A recursive descent through the grammar of the rustc book ("v0 symbol format"); each
 * function is named after its rule. Lifetimes and hashes of crates are left out.
 *
 * Backreferences let a short name be very long. So the text, the depth and the number of steps are bounded. */
#include "demangle.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_STEPS 100000

struct reader {
    const char *name; /* behind "_R": backreferences count from here */
    size_t at, n;
    char *to;
    size_t used, room;
    int depth, steps;
    bool failed, silent;
};

static void read_path(struct reader *r, bool in_value);
static void read_type(struct reader *r);

static void fail(struct reader *r)
{
    r->failed = true;
}

static void put(struct reader *r, const char *text, size_t n)
{
    if (r->silent || r->failed)
        return;
    n = n < r->room - r->used ? n : r->room - r->used;
    memcpy(r->to + r->used, text, n);
    r->used += n;
}

static void put_text(struct reader *r, const char *text)
{
    put(r, text, strlen(text));
}

static char peek(const struct reader *r)
{
    return r->failed || r->at >= r->n ? '\0' : r->name[r->at];
}

static bool take(struct reader *r, char c)
{
    bool is = peek(r) == c && c != '\0';
    r->at += is;
    return is;
}

static char next(struct reader *r)
{
    char c = peek(r);
    r->at++;
    if (c == '\0')
        fail(r);
    return c;
}

/* The list of items up to an E. Returns whether there is another item; a full text needs no more. */
static bool has_item(struct reader *r)
{
    if (++r->steps > MAX_STEPS)
        fail(r);
    return !r->failed && !take(r, 'E');
}

/* --- Numbers and identifiers -------------------------------------------------------------------------------------------- */

static uint64_t read_decimal(struct reader *r)
{
    uint64_t number = 0;
    if (peek(r) < '0' || peek(r) > '9')
        fail(r);
    if (take(r, '0'))
        return 0;
    while (peek(r) >= '0' && peek(r) <= '9' && number < UINT32_MAX)
        number = number * 10 + (uint64_t)(next(r) - '0');
    return number;
}

/* "_" is 0, "0_" is 1. */
static uint64_t read_base62(struct reader *r)
{
    uint64_t number = 0;
    if (take(r, '_'))
        return 0;
    for (char c; !take(r, '_') && !r->failed;) {
        c = next(r);
        number = number * 62
            + (uint64_t)(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : c >= 'A' && c <= 'Z' ? c - 'A' + 36 : 0);
    }
    return number + 1;
}

static uint64_t read_optional_base62(struct reader *r, char tag)
{
    return take(r, tag) ? read_base62(r) + 1 : 0;
}

struct identifier {
    const char *text;
    size_t n;
    uint64_t disambiguator;
};

static struct identifier read_identifier(struct reader *r)
{
    struct identifier identifier = {.disambiguator = read_optional_base62(r, 's')};
    take(r, 'u'); /* punycode, which is shown as it is */
    uint64_t n = read_decimal(r);
    take(r, '_');
    if (r->failed || n > r->n || r->at > r->n - n) {
        fail(r);
        return (struct identifier){"", 0, 0};
    }
    identifier.text = r->name + r->at;
    identifier.n = n;
    r->at += n;
    return identifier;
}

/* Reads what stands at an earlier place. */
static void read_backref(struct reader *r, void (*read)(struct reader *r, bool in_value), bool in_value)
{
    size_t from = r->at - 1;
    uint64_t to = read_base62(r);
    size_t after = r->at;
    if (to >= from || ++r->steps > MAX_STEPS) {
        fail(r);
        return;
    }
    if (r->silent || r->used == r->room)
        return;
    r->at = to;
    read(r, in_value);
    r->at = after;
}

/* --- Types -------------------------------------------------------------------------------------------------------------- */

static const char *basic_type(char c)
{
    static const char *const names[26] = {"i8", "bool", "char", "f64", "str", "f32", NULL, "u8", "isize", "usize", NULL, "i32", "u32",
                                          "i128", "u128", "_", NULL, NULL, "i16", "u16", "()", "...", NULL, "i64", "u64", "!"};
    return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void read_type_again(struct reader *r, bool in_value)
{
    (void)in_value;
    read_type(r);
}

static void read_const(struct reader *r, bool in_value)
{
    char digits[24];
    (void)in_value;
    if (take(r, 'B')) {
        read_backref(r, read_const, false);
        return;
    }
    if (take(r, 'p')) {
        put_text(r, "_");
        return;
    }
    if (!basic_type(next(r))) {
        fail(r);
        return;
    }
    put_text(r, take(r, 'n') ? "-" : "");
    uint64_t value = 0;
    for (char c; !take(r, '_') && !r->failed;) {
        c = next(r);
        value = value * 16 + (uint64_t)(c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : 0);
    }
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    put_text(r, digits);
}

static void read_types(struct reader *r)
{
    for (size_t i = 0; has_item(r); i++) {
        put_text(r, i > 0 ? ", " : "");
        read_type(r);
    }
}

static void read_fn_sig(struct reader *r)
{
    read_optional_base62(r, 'G');
    put_text(r, take(r, 'U') ? "unsafe " : "");
    if (take(r, 'K') && !take(r, 'C'))
        read_identifier(r);
    put_text(r, "fn(");
    read_types(r);
    put_text(r, ")");
    if (take(r, 'u'))
        return;
    put_text(r, " -> ");
    read_type(r);
}

static void read_dyn_bounds(struct reader *r)
{
    read_optional_base62(r, 'G');
    put_text(r, "dyn ");
    for (size_t i = 0; has_item(r); i++) {
        put_text(r, i > 0 ? " + " : "");
        read_path(r, false);
        bool has_arguments = !r->silent && r->used > 0 && r->to[r->used - 1] == '>';
        r->used -= has_arguments && peek(r) == 'p';
        for (size_t k = 0; take(r, 'p'); k++) {
            struct identifier name = read_identifier(r);
            put_text(r, k > 0 || has_arguments ? ", " : "<");
            put(r, name.text, name.n);
            put_text(r, " = ");
            read_type(r);
            put_text(r, peek(r) == 'p' ? "" : ">");
        }
    }
    if (!take(r, 'L'))
        fail(r);
    else
        read_base62(r);
}

static void read_reference(struct reader *r, const char *text)
{
    if (take(r, 'L'))
        read_base62(r);
    put_text(r, text);
    read_type(r);
}

static void read_tuple(struct reader *r)
{
    size_t n = 0;
    put_text(r, "(");
    for (; has_item(r); n++) {
        put_text(r, n > 0 ? ", " : "");
        read_type(r);
    }
    put_text(r, n == 1 ? ",)" : ")");
}

static void read_compound_type(struct reader *r)
{
    switch (next(r)) {
    case 'A':
        put_text(r, "[");
        read_type(r);
        put_text(r, "; ");
        read_const(r, false);
        put_text(r, "]");
        break;
    case 'S':
        put_text(r, "[");
        read_type(r);
        put_text(r, "]");
        break;
    case 'T':
        read_tuple(r);
        break;
    case 'R':
        read_reference(r, "&");
        break;
    case 'Q':
        read_reference(r, "&mut ");
        break;
    case 'P':
        read_reference(r, "*const ");
        break;
    case 'O':
        read_reference(r, "*mut ");
        break;
    case 'F':
        read_fn_sig(r);
        break;
    case 'D':
        read_dyn_bounds(r);
        break;
    case 'B':
        read_backref(r, read_type_again, false);
        break;
    default:
        r->at--;
        read_path(r, false);
    }
}

static void read_type(struct reader *r)
{
    const char *basic = basic_type(peek(r));
    if (r->failed || r->depth == MAX_DEPTH) {
        fail(r);
        return;
    }
    r->depth++;
    if (basic) {
        r->at++;
        put_text(r, basic);
    } else {
        read_compound_type(r);
    }
    r->depth--;
}

/* --- Paths -------------------------------------------------------------------------------------------------------------- */

/* Capital letters stand for items that the compiler made: closures and shims. */
static void read_nested(struct reader *r, bool in_value)
{
    char number[32], kind = next(r);
    read_path(r, in_value);
    struct identifier name = read_identifier(r);
    snprintf(number, sizeof number, "#%llu}", (unsigned long long)name.disambiguator);
    if (kind >= 'A' && kind <= 'Z') {
        put_text(r, kind == 'C' ? "::{closure" : kind == 'S' ? "::{shim" : "::{");
        put_text(r, name.n > 0 ? ":" : "");
        put(r, name.text, name.n);
        put_text(r, number);
    } else if (name.n > 0) {
        put_text(r, "::");
        put(r, name.text, name.n);
    }
}

/* The path of an impl's place says nothing to readers. */
static void read_impl_path(struct reader *r)
{
    bool was_silent = r->silent;
    read_optional_base62(r, 's');
    r->silent = true;
    read_path(r, false);
    r->silent = was_silent;
}

static void read_as(struct reader *r)
{
    put_text(r, "<");
    read_type(r);
    put_text(r, " as ");
    read_path(r, false);
    put_text(r, ">");
}

static void read_generic_arg(struct reader *r)
{
    if (take(r, 'L')) {
        read_base62(r);
        put_text(r, "'_");
    } else if (take(r, 'K')) {
        read_const(r, false);
    } else {
        read_type(r);
    }
}

static void read_generic(struct reader *r, bool in_value)
{
    read_path(r, in_value);
    put_text(r, in_value ? "::<" : "<");
    for (size_t i = 0; has_item(r); i++) {
        put_text(r, i > 0 ? ", " : "");
        read_generic_arg(r);
    }
    put_text(r, ">");
}

static void read_path_inside(struct reader *r, bool in_value)
{
    struct identifier name;
    switch (next(r)) {
    case 'C':
        name = read_identifier(r);
        put(r, name.text, name.n);
        break;
    case 'M':
        read_impl_path(r);
        put_text(r, "<");
        read_type(r);
        put_text(r, ">");
        break;
    case 'X':
        read_impl_path(r);
        read_as(r);
        break;
    case 'Y':
        read_as(r);
        break;
    case 'N':
        read_nested(r, in_value);
        break;
    case 'I':
        read_generic(r, in_value);
        break;
    case 'B':
        read_backref(r, read_path, in_value);
        break;
    default:
        fail(r);
    }
}

static void read_path(struct reader *r, bool in_value)
{
    if (r->failed || r->depth == MAX_DEPTH) {
        fail(r);
        return;
    }
    r->depth++;
    read_path_inside(r, in_value);
    r->depth--;
}

/* A suffix of the compiler or the linker, as ".llvm.123", is left out. So is the crate for which a generic was made. */
bool demangle_rust(const char *name, char *to, size_t bytes)
{
    struct reader r = {.name = name + 2, .to = to, .room = bytes - 1};
    if (strncmp(name, "_R", 2) != 0 || name[2] < 'A' || name[2] > 'Z')
        return false;
    r.n = strcspn(r.name, ".$");
    read_path(&r, true);
    if (!r.failed && r.at < r.n) {
        r.silent = true;
        read_path(&r, false);
    }
    to[r.used] = '\0';
    return !r.failed && r.at == r.n;
}
