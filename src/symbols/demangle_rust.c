/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of Rust in its present scheme. A recursive descent through the grammar of the rustc book ("v0 symbol format"); each
 * function is named after its rule. Lifetimes and hashes of crates are left out. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "demangle.h"
#include "rust_reader.h"

static void read_path(struct rust_reader *r, bool in_value);
static void read_type(struct rust_reader *r);

/* Reads what stands at an earlier place. */
static void read_backref(struct rust_reader *r, void (*read)(struct rust_reader *r, bool in_value), bool in_value)
{
    size_t from = r->at - 1;
    uint64_t to = rust_base62(r);
    size_t after = r->at;
    if (to >= from || ++r->steps > RUST_MAX_STEPS) {
        rust_fail(r);
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

static void read_type_again(struct rust_reader *r, bool in_value)
{
    (void)in_value;
    read_type(r);
}

static void read_const(struct rust_reader *r, bool in_value)
{
    char digits[24];
    (void)in_value;
    if (rust_take(r, 'B')) {
        read_backref(r, read_const, false);
        return;
    }
    if (rust_take(r, 'p')) {
        rust_put_text(r, "_");
        return;
    }
    if (!basic_type(rust_next(r))) {
        rust_fail(r);
        return;
    }
    rust_put_text(r, rust_take(r, 'n') ? "-" : "");
    uint64_t value = 0;
    for (char c; !rust_take(r, '_') && !r->failed;) {
        c = rust_next(r);
        value = value * 16 + (uint64_t)(c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : 0);
    }
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    rust_put_text(r, digits);
}

static void read_types(struct rust_reader *r)
{
    for (size_t i = 0; rust_has_item(r); i++) {
        rust_put_text(r, i > 0 ? ", " : "");
        read_type(r);
    }
}

static void read_fn_sig(struct rust_reader *r)
{
    rust_optional_base62(r, 'G');
    rust_put_text(r, rust_take(r, 'U') ? "unsafe " : "");
    if (rust_take(r, 'K') && !rust_take(r, 'C'))
        rust_identifier(r);
    rust_put_text(r, "fn(");
    read_types(r);
    rust_put_text(r, ")");
    if (rust_take(r, 'u'))
        return;
    rust_put_text(r, " -> ");
    read_type(r);
}

static void read_dyn_bounds(struct rust_reader *r)
{
    rust_optional_base62(r, 'G');
    rust_put_text(r, "dyn ");
    for (size_t i = 0; rust_has_item(r); i++) {
        rust_put_text(r, i > 0 ? " + " : "");
        read_path(r, false);
        bool has_arguments = !r->silent && r->used > 0 && r->to[r->used - 1] == '>';
        r->used -= has_arguments && rust_peek(r) == 'p';
        for (size_t k = 0; rust_take(r, 'p'); k++) {
            struct rust_identifier name = rust_identifier(r);
            rust_put_text(r, k > 0 || has_arguments ? ", " : "<");
            rust_put(r, name.text, name.n);
            rust_put_text(r, " = ");
            read_type(r);
            rust_put_text(r, rust_peek(r) == 'p' ? "" : ">");
        }
    }
    if (!rust_take(r, 'L'))
        rust_fail(r);
    else
        rust_base62(r);
}

static void read_reference(struct rust_reader *r, char kind)
{
    if (rust_take(r, 'L'))
        rust_base62(r);
    rust_put_text(r, kind == 'R' ? "&" : kind == 'Q' ? "&mut " : kind == 'P' ? "*const " : "*mut ");
    read_type(r);
}

static void read_tuple(struct rust_reader *r)
{
    size_t n = 0;
    rust_put_text(r, "(");
    for (; rust_has_item(r); n++) {
        rust_put_text(r, n > 0 ? ", " : "");
        read_type(r);
    }
    rust_put_text(r, n == 1 ? ",)" : ")");
}

static void read_compound_type(struct rust_reader *r)
{
    char kind = rust_next(r);
    switch (kind) {
    case 'A':
        rust_put_text(r, "[");
        read_type(r);
        rust_put_text(r, "; ");
        read_const(r, false);
        rust_put_text(r, "]");
        break;
    case 'S':
        rust_put_text(r, "[");
        read_type(r);
        rust_put_text(r, "]");
        break;
    case 'T':
        read_tuple(r);
        break;
    case 'R': case 'Q': case 'P': case 'O':
        read_reference(r, kind);
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

static void read_type(struct rust_reader *r)
{
    const char *basic = basic_type(rust_peek(r));
    if (r->failed || r->depth == RUST_MAX_DEPTH) {
        rust_fail(r);
        return;
    }
    r->depth++;
    if (basic) {
        r->at++;
        rust_put_text(r, basic);
    } else {
        read_compound_type(r);
    }
    r->depth--;
}

/* --- Paths -------------------------------------------------------------------------------------------------------------- */

/* Capital letters stand for items that the compiler made: closures and shims. */
static void read_nested(struct rust_reader *r, bool in_value)
{
    char number[32], kind = rust_next(r);
    read_path(r, in_value);
    struct rust_identifier name = rust_identifier(r);
    snprintf(number, sizeof number, "#%llu}", (unsigned long long)name.disambiguator);
    if (kind >= 'A' && kind <= 'Z') {
        rust_put_text(r, kind == 'C' ? "::{closure" : kind == 'S' ? "::{shim" : "::{");
        rust_put_text(r, name.n > 0 ? ":" : "");
        rust_put(r, name.text, name.n);
        rust_put_text(r, number);
    } else if (name.n > 0) {
        rust_put_text(r, "::");
        rust_put(r, name.text, name.n);
    }
}

/* The path of an impl's place says nothing to readers. */
static void read_impl_path(struct rust_reader *r)
{
    bool was_silent = r->silent;
    rust_optional_base62(r, 's');
    r->silent = true;
    read_path(r, false);
    r->silent = was_silent;
}

static void read_as(struct rust_reader *r)
{
    rust_put_text(r, "<");
    read_type(r);
    rust_put_text(r, " as ");
    read_path(r, false);
    rust_put_text(r, ">");
}

static void read_generic_arg(struct rust_reader *r)
{
    if (rust_take(r, 'L')) {
        rust_base62(r);
        rust_put_text(r, "'_");
    } else if (rust_take(r, 'K')) {
        read_const(r, false);
    } else {
        read_type(r);
    }
}

static void read_generic(struct rust_reader *r, bool in_value)
{
    read_path(r, in_value);
    rust_put_text(r, in_value ? "::<" : "<");
    for (size_t i = 0; rust_has_item(r); i++) {
        rust_put_text(r, i > 0 ? ", " : "");
        read_generic_arg(r);
    }
    rust_put_text(r, ">");
}

static void read_path_inside(struct rust_reader *r, bool in_value)
{
    struct rust_identifier name;
    switch (rust_next(r)) {
    case 'C':
        name = rust_identifier(r);
        rust_put(r, name.text, name.n);
        break;
    case 'M':
        read_impl_path(r);
        rust_put_text(r, "<");
        read_type(r);
        rust_put_text(r, ">");
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
        rust_fail(r);
    }
}

static void read_path(struct rust_reader *r, bool in_value)
{
    if (r->failed || r->depth == RUST_MAX_DEPTH) {
        rust_fail(r);
        return;
    }
    r->depth++;
    read_path_inside(r, in_value);
    r->depth--;
}

/* A suffix of the compiler or the linker, as ".llvm.123", is left out. So is the crate for which a generic was made. */
bool demangle_rust(const char *name, char *to, size_t bytes)
{
    struct rust_reader r = {.name = name + 2, .to = to, .room = bytes - 1};
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
