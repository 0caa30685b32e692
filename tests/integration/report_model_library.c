/* SPDX-License-Identifier: BSD-2-Clause */
/* The library of report_model_program.c. */
#define MODEL_LIBRARY "libmodel.so"
#include "report_model_frames.h"

#include <stdlib.h>
#include <string.h>

/* Also a function of the program */
static __attribute__((noinline)) void *grow(struct stack *stack, struct stack *made, size_t bytes, void *old)
{
    void *p;
    FRAME(stack, (*made = *stack, p = realloc(old, bytes)));
    return p;
}

void *model_make(struct stack *stack, struct stack *made, size_t bytes, void *old)
{
    static const char text[] = "a text of some bytes";
    void *p;
    if (old)
        FRAME(stack, p = grow(stack, made, bytes, old));
    else if (bytes % 8 == 0)
        FRAME(stack, (*made = *stack, p = strdup(text)));
    else
        FRAME(stack, (*made = *stack, p = malloc(bytes)));
    return p;
}

void *model_call(model_maker *maker, struct stack *stack, size_t bytes, void *old, unsigned depth)
{
    void *p;
    FRAME(stack, p = maker(stack, bytes, old, depth));
    return p;
}
