/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ exceptions, by the Itanium C++ ABI, which libstdc++ and libc++abi follow. Finds the exceptions that a thread has
 * thrown, and tells whether an object is an exception. */
#ifndef JESPAN_EXCEPTIONS_H
#define JESPAN_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of exceptions that were thrown and not caught yet, and a number that stands for the stack of exceptions
 * that are being handled; 0: none. Only the same exceptions have the same number. The address of the last exception is
 * not enough, since an earlier one may have had it. */
struct exceptions_level {
    unsigned uncaught;
    uint64_t caught;
};

/* Returns the exceptions of the calling thread. All members are 0 without C++, or if its library lacks the symbol. */
struct exceptions_level exceptions_level(void);

/* Each object that is an exception has more bytes than this. */
#define EXCEPTION_BYTES_MIN 128

/* The word in an exception's header that names the library that threw it. */
#define EXCEPTION_CLASS_AT 12
#define EXCEPTION_CLASS_GNU 0x474e5543432b2b00u   /* "GNUCC++" and a 0; with a 1 it refers to another exception */
#define EXCEPTION_CLASS_CLANG 0x434c4e47432b2b00u /* "CLNGC++" */

/* The object is about to be freed. Its memory must not look like an exception to its next owner. */
static inline void exceptions_forget(void *p, size_t usable)
{
    uint64_t *class = (uint64_t *)p + EXCEPTION_CLASS_AT;
    if (usable > EXCEPTION_BYTES_MIN && __builtin_expect((*class ^ EXCEPTION_CLASS_GNU) <= 1 || *class == EXCEPTION_CLASS_CLANG, 0))
        *class = 0;
}

/* Whether the object, which has more than EXCEPTION_BYTES_MIN bytes, is an exception in use. */
bool exceptions_is_one(const void *p);

#endif
