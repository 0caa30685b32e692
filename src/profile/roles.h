/* SPDX-License-Identifier: BSD-2-Clause */
/* Which functions of a stack people want to see, by what each of them is there for. */
#ifndef JESPAN_PROFILE_ROLES_H
#define JESPAN_PROFILE_ROLES_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "report/service.h"

/* The texts of a function that say what its role is: its name, its name in the symbol table, and the file of its library. */
struct role_names {
    ProtobufCBinaryData function, system, library;
};

/* Whether the function has the role, which is not SERVICE_OTHER. */
bool role_is(const struct role_names *names, enum service_role role);

/* The role of the function. SERVICE_OTHER: none of the others. */
enum service_role role_of(const struct role_names *names);

/* A stack of `n` functions, the innermost first. role_find_shown() sets the last three members. */
struct role_stack {
    size_t n;
    bool (*has)(const void *data, size_t i, enum service_role role); /* role_is() of a function */
    const void *data;
    size_t first, end; /* what is shown lies here: without allocators at the inner end and libc's start at the outer one */
    size_t script;     /* one more than the place of the outermost function of a script; 0: there is none */
};

void role_find_shown(struct role_stack *s);

/* Whether function i, which lies between `first` and `end`, is shown. */
static inline bool role_shows(const struct role_stack *s, size_t i)
{
    return i >= s->script || !s->has(s->data, i, SERVICE_CARRIES);
}

#endif
