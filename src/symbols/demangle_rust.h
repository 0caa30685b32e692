/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of Rust in its present scheme (v0, rustc book: "v0 symbol format"), which begin with _R. */
#ifndef JESPAN_DEMANGLE_RUST_H
#define JESPAN_DEMANGLE_RUST_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "alloc::vec::Vec<u8>::push" to a buffer. A name that does not fit is cut. Returns false if it is no such name. */
bool demangle_rust(const char *name, char *to, size_t bytes);

#endif
