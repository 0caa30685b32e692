/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames that report_model_program.c and its library say they are in. The file that includes this defines MODEL_LIBRARY. */
#ifndef JESPAN_TESTS_REPORT_MODEL_FRAMES_H
#define JESPAN_TESTS_REPORT_MODEL_FRAMES_H

#include <stddef.h>

#define MODEL_DEPTH 40

struct frame {
    const char *function, *file, *library;
    int line;
    unsigned number; /* 0: none yet */
};

/* The outermost first */
struct stack {
    struct frame *frames[MODEL_DEPTH];
    unsigned n;
};

/* Runs a call with its line on top of the stack. */
#define FRAME(stack, call)                                                                              \
    do {                                                                                                \
        static struct frame frame_here = {__func__, __FILE_NAME__, MODEL_LIBRARY, __LINE__, 0};         \
        (stack)->frames[(stack)->n++] = &frame_here;                                                    \
        call;                                                                                           \
        (stack)->n--;                                                                                   \
    } while (0)

typedef void *model_maker(struct stack *stack, size_t bytes, void *old, unsigned depth);

/* Functions of the library. model_make() allocates, and model_call() calls. */
void *model_make(struct stack *stack, struct stack *made, size_t bytes, void *old);
void *model_call(model_maker *maker, struct stack *stack, size_t bytes, void *old, unsigned depth);

#endif
