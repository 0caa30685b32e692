/* SPDX-License-Identifier: BSD-2-Clause */
/* mallctl: jespan's own figures and jemalloc's, for programs without jemalloc's header. docs/mallctl.md lists the names.
 *
 * <jemalloc/jemalloc.h> may be included too, before or after. With JESPAN_DISABLE the calls go to the jemalloc that the
 * program is linked with; without one they return ENOENT.
 */
#ifndef JESPAN_MALLCTL_H
#define JESPAN_MALLCTL_H

#include <errno.h>
#include <stddef.h>

#if defined JEMALLOC_VERSION
/* jemalloc's header has declared them. */
#elif defined JESPAN_DISABLE

#ifdef __cplusplus
extern "C" {
#endif

/* jemalloc's, if the program has one; otherwise NULL. */
__attribute__((weak, nothrow)) int jespan_other_mallctl_(const char *, void *, size_t *, void *, size_t) __asm__("mallctl");
__attribute__((weak, nothrow)) int jespan_other_nametomib_(const char *, size_t *, size_t *) __asm__("mallctlnametomib");
__attribute__((weak, nothrow)) int jespan_other_bymib_(const size_t *, size_t, void *, size_t *, void *, size_t) __asm__("mallctlbymib");

/* Other symbols in the object file, or these would call themselves. */
__attribute__((nothrow)) static inline int mallctl(const char *name, void *old_value, size_t *old_bytes, void *new_value,
                                                   size_t new_bytes) __asm__("jespan_mallctl_");
__attribute__((nothrow)) static inline int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
    __asm__("jespan_mallctlnametomib_");
__attribute__((nothrow)) static inline int mallctlbymib(const size_t *mib, size_t mib_length, void *old_value, size_t *old_bytes,
                                                        void *new_value, size_t new_bytes) __asm__("jespan_mallctlbymib_");

__attribute__((nothrow)) static inline int mallctl(const char *name, void *old_value, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    return jespan_other_mallctl_ ? jespan_other_mallctl_(name, old_value, old_bytes, new_value, new_bytes) : ENOENT;
}

__attribute__((nothrow)) static inline int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
{
    return jespan_other_nametomib_ ? jespan_other_nametomib_(name, mib, mib_length) : ENOENT;
}

__attribute__((nothrow)) static inline int mallctlbymib(const size_t *mib, size_t mib_length, void *old_value,
                                                              size_t *old_bytes, void *new_value, size_t new_bytes)
{
    return jespan_other_bymib_ ? jespan_other_bymib_(mib, mib_length, old_value, old_bytes, new_value, new_bytes) : ENOENT;
}

#ifdef __cplusplus
}
#endif

#else

#ifdef __cplusplus
extern "C" {
#endif

/* Reads or writes the value `name`, or performs the action `name`. The present value is stored in `old_value`, unless
 * that is NULL; *old_bytes is the size of `old_value` before, and the size of the value after. The new value is read
 * from `new_value`, of `new_bytes`, unless that is NULL. Both stay the caller's. A string that is read stays jespan's.
 * Returns 0, or a positive errno value: ENOENT (no such name), EINVAL (a wrong size or value), EPERM (it cannot be
 * read, or not be written), EAGAIN or ENOMEM (no memory), and the error of the file for spans.dump and spans.dump_time.
 * Any thread; not in a signal handler. */
__attribute__((visibility("default"), nothrow)) int mallctl(const char *name, void *old_value, size_t *old_bytes, void *new_value,
                                                            size_t new_bytes);

/* Translates a name into numbers for mallctlbymib(), which is faster. *mib_length is the length of `mib` before, and
 * the number of its elements after. A number in a name, as in spans.17.inuse_bytes, is an element, and may be replaced.
 * Returns 0, EINVAL (an argument is NULL), ENOENT or EAGAIN (no memory). Any thread; not in a signal handler. */
__attribute__((visibility("default"), nothrow)) int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);

/* mallctl() for a name that mallctlnametomib() has translated. */
__attribute__((visibility("default"), nothrow)) int mallctlbymib(const size_t *mib, size_t mib_length, void *old_value,
                                                                 size_t *old_bytes, void *new_value, size_t new_bytes);

#ifdef __cplusplus
}
#endif

#endif
#endif
