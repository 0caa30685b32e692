/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ and Rust as people write them. The C++ runtime has the demangler. It is loaded when the first such name comes,
 * so that jespan does not need it. Rust's older scheme is C++'s with escapes and a hash at the end. */
#include "demangle.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

#define HASH_DIGITS 16

typedef char *cxa_demangle(const char *name, char *to, size_t *bytes, int *status);

static cxa_demangle *find_demangler(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        cxa_demangle *found = !library ? NULL : (cxa_demangle *)dlsym(library, "__cxa_demangle");
        if (found)
            return found;
    }
    return NULL;
}

/* --- Rust ----------------------------------------------------------------------------------------------------------- */

/* "…::h0123456789abcdef" */
static bool has_rust_hash(const char *name, size_t n)
{
    if (n < HASH_DIGITS + 3 || strncmp(name + n - HASH_DIGITS - 3, "::h", 3) != 0)
        return false;
    return strspn(name + n - HASH_DIGITS, "0123456789abcdef") == HASH_DIGITS;
}

static const struct {
    const char *escape, *text;
} escapes[] = {{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"}, {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","}};

/* "$u7e$" is a character by its number. */
static size_t read_number_escape(const char *from, char *to)
{
    char *end;
    unsigned long c = strncmp(from, "$u", 2) != 0 ? 0 : strtoul(from + 2, &end, 16);
    if (c < 0x20 || c > 0x7e || *end != '$')
        return 0;
    *to = (char)c;
    return (size_t)(end + 1 - from);
}

static size_t read_escape(const char *from, char *to)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        size_t n = strlen(escapes[i].escape);
        if (strncmp(from, escapes[i].escape, n) == 0) {
            *to = escapes[i].text[0];
            return n;
        }
    }
    return read_number_escape(from, to);
}

/* Writes into the name itself, since no escape is shorter than its text. */
static void unescape_rust(char *name, size_t n)
{
    char *to = name;
    name[n - HASH_DIGITS - 3] = '\0';
    for (const char *from = name; *from != '\0'; to++) {
        size_t escaped = *from == '$' ? read_escape(from, to) : 0;
        bool is_start = to == name || to[-1] == ':';
        if (escaped > 0) {
            from += escaped;
        } else if (from[0] == '_' && from[1] == '$' && is_start) {
            from++;
            to--;
        } else if (from[0] == '.' && from[1] == '.') {
            *to++ = ':';
            *to = ':';
            from += 2;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* --- Both ----------------------------------------------------------------------------------------------------------- */

const char *demangle(const char *name)
{
    static cxa_demangle *demangler;
    static bool was_searched;
    static char *text;
    static size_t room;
    static char rust[SYMBOLS_MAX_TEXT + 1];
    int status;
    if (strncmp(name, "_R", 2) == 0)
        return demangle_rust(name, rust, sizeof rust) ? rust : name;
    if (strncmp(name, "_Z", 2) != 0 && strncmp(name, "__Z", 3) != 0)
        return name;
    if (!was_searched)
        demangler = find_demangler();
    was_searched = true;
    char *found = demangler ? demangler(name, text, &room, &status) : NULL;
    if (!found)
        return name;
    text = found;
    size_t n = strlen(text);
    if (has_rust_hash(text, n))
        unescape_rust(text, n);
    return text;
}
