/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ exceptions. Their headers cannot change, since libstdc++ and libc++abi throw exceptions to each other. */
#include "base/exceptions.h"

#include <string.h>

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

#define ALIGNMENT 16
#define REFERENCES_MAX (1u << 20)

struct globals {
    const void *caught;
    unsigned uncaught;
};
extern struct globals *__cxa_get_globals(void) __attribute__((weak));

struct exceptions_level exceptions_level(void)
{
    const struct globals *g = __cxa_get_globals ? __cxa_get_globals() : NULL;
    return g ? (struct exceptions_level){g->uncaught, g->caught} : (struct exceptions_level){0, NULL};
}

/* An exception that is over has no references. In a region that was released, it looks as it was. */
static bool is_one(const struct header *h)
{
    uint64_t references = h->class == EXCEPTION_CLASS_GNU ? h->front[0] : h->front[1];
    uint64_t nothing = h->class == EXCEPTION_CLASS_GNU ? h->front[1] : h->front[0];
    return (h->class == EXCEPTION_CLASS_GNU || h->class == EXCEPTION_CLASS_CLANG) && references && references < REFERENCES_MAX && !nothing &&
           h->cleanup && h->type;
}

COLD const void *exceptions_find(const char *start, const char *stop, const char *end)
{
    struct header copy;
    const char *p = (const char *)(((uintptr_t)start + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    for (; p < stop && (size_t)(end - p) >= sizeof copy; p += ALIGNMENT) {
        memcpy(&copy, p, sizeof copy);
        if (is_one(&copy))
            return p;
    }
    return NULL;
}
