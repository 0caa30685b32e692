/* SPDX-License-Identifier: BSD-2-Clause */
/* C++'s operators new and delete, with malloc's fast path. Only the shared library has them.
 *
 * libstdc++'s operators call malloc and free, which takes 20 instructions more for each object. Ours do the same as those. They
 * stand aside, and call the next operator of their name, if the program replaces malloc, free or one of the operators: what a
 * program replaces in part must fit together. The first call decides that.
 *
 * If there is no memory, a handler may make room, and an operator throws. libstdc++ has functions for both, which are looked up
 * then: in the program, or in the library that calls, which dlopen() may have loaded. The names are those of the Itanium C++ ABI:
 * m is size_t, Pv a pointer, St11align_val_t an alignment, RKSt9nothrow_t std::nothrow. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/die.h"
#include "malloc/family.h"
#include "malloc/track.h"

#if INTERPOSES

/* Forms by what they take: a size or a pointer, then the alignment at argument b, if any. */
#define EACH_NEW(X) X(_Znwm, 0) X(_Znam, 0)
#define EACH_NEW_ALIGNED(X) X(_ZnwmSt11align_val_t, b) X(_ZnamSt11align_val_t, b)
#define EACH_NEW_NOTHROW(X)                                                                                                         \
    X(_ZnwmRKSt9nothrow_t, 0) X(_ZnamRKSt9nothrow_t, 0)                                                                             \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, b) X(_ZnamSt11align_val_tRKSt9nothrow_t, b)
#define EACH_DELETE(X)                                                                                                              \
    X(_ZdlPv, 0) X(_ZdaPv, 0) X(_ZdlPvm, 0) X(_ZdaPvm, 0) X(_ZdlPvRKSt9nothrow_t, 0) X(_ZdaPvRKSt9nothrow_t, 0)                     \
    X(_ZdlPvSt11align_val_t, 0) X(_ZdaPvSt11align_val_t, 0) X(_ZdlPvmSt11align_val_t, 0) X(_ZdaPvmSt11align_val_t, 0)               \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, 0) X(_ZdaPvSt11align_val_tRKSt9nothrow_t, 0)
#define EACH_FORM(X) EACH_NEW(X) EACH_NEW_ALIGNED(X) EACH_NEW_NOTHROW(X) EACH_DELETE(X)

/* All arguments are numbers or pointers, at most three of them. So one type stands for all forms, and they can be passed on. */
typedef uintptr_t word;
typedef void *any_operator(word a, word b, word c);
typedef void any_delete(word p, word b, word c);

#define DECLARE_NEW(name, alignment) any_operator name;
#define DECLARE_DELETE(name, alignment) any_delete name;
EACH_NEW(DECLARE_NEW) EACH_NEW_ALIGNED(DECLARE_NEW) EACH_NEW_NOTHROW(DECLARE_NEW) EACH_DELETE(DECLARE_DELETE)
#define NUMBER(name, alignment) NUMBER_##name,
enum { EACH_FORM(NUMBER) FORMS };
#define ROW(name, alignment) {#name, (any_operator *)(void (*)(void))name},
static const struct form {
    const char *name;
    any_operator *own;
} forms[FORMS] = {EACH_FORM(ROW)};

/* ---- Which way ---- */

enum way { UNDECIDED, STAND_ASIDE, DO_IT };
static _Atomic int way;

static any_operator *find(void *scope, const char *name)
{
    return (any_operator *)(uintptr_t)dlsym(scope, name);
}

static bool is_found_first(const char *name, any_operator *own)
{
    return find(RTLD_DEFAULT, name) == own;
}

/* dladdr(3) would search all symbols of the library. */
static bool are_in_one_library(any_operator *a, any_operator *b)
{
    struct dl_find_object of_a, of_b;
    return !_dl_find_object((void *)(uintptr_t)a, &of_a) && !_dl_find_object((void *)(uintptr_t)b, &of_b) &&
           of_a.dlfo_link_map == of_b.dlfo_link_map;
}

/* Whether calls come here, and without jespan would go to the operators of a standard library, which call the functions that
 * jespan defines. dlopen() may load that library later. */
static bool may_do_it(void)
{
    bool may = is_found_first("malloc", (any_operator *)(uintptr_t)FAMILY(malloc)) &&
               is_found_first("free", (any_operator *)(uintptr_t)FAMILY(free)) &&
               is_found_first("aligned_alloc", (any_operator *)(uintptr_t)FAMILY(aligned_alloc));
    any_operator *standard = find(RTLD_NEXT, "_ZSt15get_new_handlerv");
    for (unsigned i = 0; i < FORMS && may; i++) {
        any_operator *other = find(RTLD_NEXT, forms[i].name);
        may = is_found_first(forms[i].name, forms[i].own) && (!other || are_in_one_library(other, standard));
    }
    return may;
}

/* Several threads may do this at once, with the same result. */
static COLD bool decide(void)
{
    bool may = may_do_it();
    store_relaxed(&way, may ? DO_IT : STAND_ASIDE);
    return may;
}

HOT_INLINE bool does_it(void)
{
    int decided = load_relaxed(&way);
    return likely(decided == DO_IT) || (decided == UNDECIDED && decide());
}

/* ---- Other libraries ---- */

/* The function that the caller would get without jespan: the next one, or that of the library that calls or of one that it needs.
 * NULL: there is none. */
static any_operator *find_other(const char *name, const void *caller)
{
    any_operator *found = find(RTLD_NEXT, name);
    Dl_info info;
    if (found || !dladdr(caller, &info))
        return found;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return NULL;
    found = find(library, name);
    dlclose(library);
    return found;
}

static COLD _Noreturn void no_operator(const char *name)
{
    WARN("no C++ library has the operator ", name);
    abort(); /* as std::terminate() does */
}

static COLD any_operator *other_operator(unsigned form, const void *caller)
{
    any_operator *other = find_other(forms[form].name, caller);
    if (!other || other == forms[form].own)
        no_operator(forms[form].name);
    return other;
}

/* The same where ours stand aside, so each call comes here. The library of the next operator stays loaded from now on. */
static NOINLINE any_operator *next_operator(unsigned form, const void *caller)
{
    static _Atomic(any_operator *) next[FORMS];
    any_operator *found = load_relaxed(&next[form]);
    if (likely(found))
        return found;
    Dl_info info;
    found = find(RTLD_NEXT, forms[form].name);
    if (!found || !dladdr((void *)(uintptr_t)found, &info))
        return other_operator(form, caller);
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    store_relaxed(&next[form], found);
    return found;
}

/* ---- new ---- */

static void *allocate(size_t size, size_t alignment)
{
    return alignment ? FAMILY(aligned_alloc)(alignment, size) : FAMILY(malloc)(size);
}

/* std::get_new_handler() */
typedef void handler(void);
typedef handler *get_handler(void);

static get_handler *find_get_handler(const void *caller)
{
    return (get_handler *)(uintptr_t)find_other("_ZSt15get_new_handlerv", caller);
}

/* As the C++ standard says: asks the handler to make room, and throws if there is none. What the handler throws goes on to the
 * caller. */
static COLD void *ask_handler(unsigned form, size_t size, size_t alignment, word b, word c, const void *caller)
{
    get_handler *get = find_get_handler(caller);
    handler *throw_bad_alloc = (handler *)(uintptr_t)find_other("_ZSt17__throw_bad_allocv", caller);
    if (!get || !throw_bad_alloc)
        return other_operator(form, caller)(size, b, c);
    for (void *p = NULL;;) {
        handler *make_room = get();
        if (!make_room)
            throw_bad_alloc();
        make_room();
        if ((p = allocate(size, alignment)))
            return p;
    }
}

/* The operator has failed, or ours stand aside, or the first call decides. */
static NOINLINE void *new_otherwise(unsigned form, size_t size, size_t alignment, word b, word c, const void *caller)
{
    if (load_relaxed(&way) == DO_IT)
        return ask_handler(form, size, alignment, b, c, caller);
    if (!does_it())
        return next_operator(form, caller)(size, b, c);
    void *p = allocate(size, alignment);
    return likely(p) ? p : ask_handler(form, size, alignment, b, c, caller);
}

/* If a handler is set, libstdc++'s operator calls it, and catches what it throws. */
static NOINLINE void *new_nothrow(unsigned form, size_t size, size_t alignment, word b, word c, const void *caller)
{
    if (unlikely(!does_it()))
        return next_operator(form, caller)(size, b, c);
    void *p = allocate(size, alignment);
    if (likely(p))
        return p;
    get_handler *get = find_get_handler(caller);
    return get && get() ? other_operator(form, caller)(size, b, c) : NULL;
}

/* The first function is reached by a jump, so its return address is that of the operator's caller. */
#define NEW(name, alignment)                                                                                                        \
    static NOINLINE void *name##_slow(word a)                                                                                       \
    {                                                                                                                               \
        void *p = likely(load_relaxed(&way) == DO_IT) ? family_malloc_slow(a) : NULL;                                               \
        return likely(p) ? p : new_otherwise(NUMBER_##name, a, 0, 0, 0, __builtin_return_address(0));                               \
    }                                                                                                                               \
    EXPORT void *name(word a, word b, word c)                                                                                       \
    {                                                                                                                               \
        void *p = likely(load_relaxed(&way) == DO_IT) ? track_reuse_if_plain(a) : NULL;                                             \
        (void)b, (void)c;                                                                                                           \
        return likely(p) ? p : name##_slow(a);                                                                                      \
    }
EACH_NEW(NEW)

#define NEW_ALIGNED(name, alignment)                                                                                                \
    EXPORT void *name(word a, word b, word c)                                                                                       \
    {                                                                                                                               \
        void *p = likely(load_relaxed(&way) == DO_IT) ? FAMILY(aligned_alloc)(alignment, a) : NULL;                                 \
        return likely(p) ? p : new_otherwise(NUMBER_##name, a, alignment, b, c, __builtin_return_address(0));                       \
    }
EACH_NEW_ALIGNED(NEW_ALIGNED)

#define NEW_NOTHROW(name, alignment)                                                                                                \
    EXPORT void *name(word a, word b, word c)                                                                                       \
    {                                                                                                                               \
        return new_nothrow(NUMBER_##name, a, alignment, b, c, __builtin_return_address(0));                                         \
    }
EACH_NEW_NOTHROW(NEW_NOTHROW)

/* ---- delete ---- */

static NOINLINE void delete_elsewhere(unsigned form, word p, word b, word c, const void *caller)
{
    if (does_it())
        FAMILY(free)((void *)p);
    else
        next_operator(form, caller)(p, b, c);
}

#define DELETE(name, alignment)                                                                                                     \
    EXPORT void name(word p, word b, word c)                                                                                        \
    {                                                                                                                               \
        if (likely(load_relaxed(&way) == DO_IT))                                                                                    \
            FAMILY(free)((void *)p);                                                                                                \
        else                                                                                                                        \
            delete_elsewhere(NUMBER_##name, p, b, c, __builtin_return_address(0));                                                  \
    }
EACH_DELETE(DELETE)

#endif
