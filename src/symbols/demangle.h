/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ and Rust as people write them. */
#ifndef JESPAN_DEMANGLE_H
#define JESPAN_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the demangled name, which is valid until the next call, or the name itself if it is none of C++ or Rust, or if
 * there is no libstdc++ or libc++abi on this machine. For one thread. */
const char *demangle(const char *name);

/* ---- Rust ---- */

/* Names of Rust in its present scheme (v0, rustc book: "v0 symbol format"), which begin with _R. */

/* Writes "alloc::vec::Vec<u8>::push" to a buffer. A name that does not fit is cut. Returns false if it is no such name. */
bool demangle_rust(const char *name, char *to, size_t bytes);

#endif
