/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ exceptions, as the Itanium C++ ABI has them, which libstdc++ and libc++abi follow: where a thread is with them, and which
 * objects are one. */
#ifndef JESPAN_EXCEPTIONS_H
#define JESPAN_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exceptions that were thrown and not caught yet, and the one that is being handled. */
struct exceptions_level {
    unsigned uncaught;
    const void *caught;
};

/* Of the calling thread. All zero without C++, or where its library is not to be found by name. */
struct exceptions_level exceptions_level(void);

/* An object that is an exception has more bytes than this. */
#define EXCEPTION_BYTES_MIN 128

/* The word in an exception's header that says who threw it. */
#define EXCEPTION_CLASS_AT 12
#define EXCEPTION_CLASS_GNU 0x474e5543432b2b00u   /* "GNUCC++"; with 1 in place of its 0 it only refers to another */
#define EXCEPTION_CLASS_CLANG 0x434c4e47432b2b00u /* "CLNGC++" */

/* The object is about to be freed: whatever its memory is used for next, nothing in it shall look like an exception. */
static inline void exceptions_forget(void *p, size_t usable)
{
    uint64_t *class = (uint64_t *)p + EXCEPTION_CLASS_AT;
    if (usable > EXCEPTION_BYTES_MIN && __builtin_expect((*class ^ EXCEPTION_CLASS_GNU) <= 1 || *class == EXCEPTION_CLASS_CLANG, 0))
        *class = 0;
}

/* The header of an exception that is somebody's, or NULL, in the part of an object where it may begin. Nothing from `end` on is
 * read. */
const void *exceptions_find(const char *start, const char *stop, const char *end);

#endif
