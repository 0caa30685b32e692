/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ exceptions. Their headers cannot change, since libstdc++ and libc++abi throw exceptions to each other. */
#include "base/exceptions.h"

#include "base/compiler.h"

/* The beginning of an exception's memory: struct __cxa_refcounted_exception of libstdc++, struct __cxa_exception of
 * libc++abi. */
struct header {
    uint64_t front[2]; /* libstdc++: references, then 0; libc++abi: 0, then references */
    const void *type;
    uint64_t handlers[9];
    uint64_t class; /* the library that threw it; with the next member, from struct _Unwind_Exception */
    uint64_t cleanup, private[2];
};
_Static_assert(sizeof(struct header) == EXCEPTION_BYTES_MIN, "the thrown object follows the header");
_Static_assert(offsetof(struct header, class) == EXCEPTION_CLASS_AT * sizeof(uint64_t), "a number of words");

#define REFERENCES_MAX (1u << 20)
#define NEXT_AT 6       /* the word in an exception's header that refers to the exception below it on the stack */
#define FRONT_WORDS 2   /* libstdc++ refers to an exception by the address behind these */

struct globals {
    const uint64_t *caught;
    unsigned uncaught;
};
extern struct globals *__cxa_get_globals(void) __attribute__((weak));

/* Nothing is known about an exception of another language, which is the only one on the stack. */
static const uint64_t *below(const uint64_t *p)
{
    if ((p[EXCEPTION_CLASS_AT] ^ EXCEPTION_CLASS_CLANG) <= 1)
        return (const uint64_t *)(uintptr_t)p[NEXT_AT];
    if ((p[EXCEPTION_CLASS_AT - FRONT_WORDS] ^ EXCEPTION_CLASS_GNU) <= 1)
        return (const uint64_t *)(uintptr_t)p[NEXT_AT - FRONT_WORDS];
    return NULL;
}

static uint64_t number_of_caught(const uint64_t *p)
{
    uint64_t number = 0;
    for (; p; p = below(p)) {
        number = (number ^ (uintptr_t)p) * 0x9e3779b97f4a7c15u;
        number ^= number >> 32;
    }
    return number;
}

struct exceptions_level exceptions_level(void)
{
    const struct globals *g = __cxa_get_globals ? __cxa_get_globals() : NULL;
    return g ? (struct exceptions_level){g->uncaught, number_of_caught(g->caught)} : (struct exceptions_level){0, 0};
}

/* An exception that is over has no references. In a region that was released, it looks as it was. */
COLD bool exceptions_is_one(const void *p)
{
    const struct header *h = p;
    uint64_t references = h->class == EXCEPTION_CLASS_GNU ? h->front[0] : h->front[1];
    uint64_t nothing = h->class == EXCEPTION_CLASS_GNU ? h->front[1] : h->front[0];
    return (h->class == EXCEPTION_CLASS_GNU || h->class == EXCEPTION_CLASS_CLANG) && references && references < REFERENCES_MAX &&
           !nothing &&
           h->cleanup && h->type;
}

