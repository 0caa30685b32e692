/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ and Rust as people write them. */
#ifndef JESPAN_DEMANGLE_H
#define JESPAN_DEMANGLE_H

/* Returns the demangled name, which is valid until the next call, or the name itself if it is none of C++ or Rust, or if
 * there is no libstdc++ or libc++abi on this machine. For one thread. */
const char *demangle(const char *name);

#endif
