/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the parts of a name of Rust that demangle_rust.c puts together. A function that finds no such part sets `failed`; all then
 * read '\0' and write nothing. */
#ifndef JESPAN_RUST_READER_H
#define JESPAN_RUST_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Backreferences let a short name be very long. So the text, the depth and the number of steps are bounded. */
#define RUST_MAX_DEPTH 64
#define RUST_MAX_STEPS 100000

struct rust_reader {
    const char *name; /* behind "_R": backreferences count from here */
    size_t at, n;
    char *to;
    size_t used, room;
    int depth, steps;
    bool failed, silent;
};

void rust_fail(struct rust_reader *r);

/* Append to the text, unless the reader is silent. A text that is full takes no more. */
void rust_put(struct rust_reader *r, const char *text, size_t n);
void rust_put_text(struct rust_reader *r, const char *text);

/* The next letter, or '\0' at the end. */
char rust_peek(const struct rust_reader *r);

/* Goes past the letter if it is `c`. Returns whether it was. */
bool rust_take(struct rust_reader *r, char c);

/* Goes past the next letter and returns it. Fails at the end. */
char rust_next(struct rust_reader *r);

/* For a list of items up to an E: returns whether there is another item. */
bool rust_has_item(struct rust_reader *r);

/* A number in base 62 that ends with '_': "_" is 0, "0_" is 1. */
uint64_t rust_base62(struct rust_reader *r);

/* The same, plus 1, behind `tag`; 0 if the tag is missing. */
uint64_t rust_optional_base62(struct rust_reader *r, char tag);

struct rust_identifier {
    const char *text;
    size_t n;
    uint64_t disambiguator;
};

struct rust_identifier rust_identifier(struct rust_reader *r);

#endif
