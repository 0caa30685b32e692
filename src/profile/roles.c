/* SPDX-License-Identifier: BSD-2-Clause */
/* Roles of functions, by their names. */
#include "roles.h"

#include "allocators.h"
#include "string_is.h"

static bool is_one_of(ProtobufCBinaryData string, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (string_is(string, texts[i]))
            return true;
    return false;
}

/* All functions of jespan itself allocate for their callers. */
static bool allocates(const struct role_names *names)
{
    return allocators_have(names->function) || string_ends_with(names->library, "/libjespan.so") ||
           string_ends_with(names->library, "/libjespan.so.0") || string_ends_with(names->library, "/libjespan.so.0.0.0");
}

static bool starts(ProtobufCBinaryData name)
{
    static const char *const names[] = {"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34",
                                        "__libc_start_call_main", "start_thread", "clone", "clone3", "__clone", "__clone3",
                                        "__GI___clone", "__GI___clone3"};
    return is_one_of(name, names, sizeof names / sizeof names[0]);
}

static bool carries(ProtobufCBinaryData name)
{
    static const char *const names[] = {"py_trampoline_evaluator", "_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "_PyEval_Vector",
                                        "_PyFunction_Vectorcall", "PyObject_Vectorcall", "_PyObject_VectorcallTstate"};
    return is_one_of(name, names, sizeof names / sizeof names[0]);
}

bool role_is(const struct role_names *names, enum service_role role)
{
    switch (role) {
    case SERVICE_UNNAMED: return names->function.len == 0 || names->system.len == 0;
    case SERVICE_ALLOCATES: return allocates(names);
    case SERVICE_STARTS: return starts(names->function);
    case SERVICE_SCRIPT: return string_begins_with(names->system, "py::"); /* as CPython writes it to a perf map: symbols_map.c */
    case SERVICE_CARRIES: return carries(names->function);
    case SERVICE_OTHER: break;
    }
    return false;
}

enum service_role role_of(const struct role_names *names)
{
    static const enum service_role roles[] = {SERVICE_ALLOCATES, SERVICE_STARTS, SERVICE_SCRIPT, SERVICE_CARRIES, SERVICE_UNNAMED};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (role_is(names, roles[i]))
            return roles[i];
    return SERVICE_OTHER;
}

static bool has(const struct role_stack *s, size_t i, enum service_role role)
{
    return s->has(s->data, i, role);
}

/* If nothing else is there, all is shown. */
void role_find_shown(struct role_stack *s)
{
    s->first = 0;
    s->end = s->n;
    s->script = 0;
    if (s->end > 1 && has(s, s->end - 1, SERVICE_UNNAMED) && has(s, s->end - 2, SERVICE_STARTS))
        s->end--; /* _start of a stripped program */
    while (s->end > 0 && has(s, s->end - 1, SERVICE_STARTS))
        s->end--;
    while (s->first < s->end && has(s, s->first, SERVICE_ALLOCATES))
        s->first++;
    if (s->first == s->end) {
        s->first = 0;
        s->end = s->n;
        return;
    }
    for (s->script = s->end; s->script > s->first && !has(s, s->script - 1, SERVICE_SCRIPT);)
        s->script--;
}
