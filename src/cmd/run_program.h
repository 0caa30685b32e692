/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that `jespan run` is to start. */
#ifndef JESPAN_CMD_RUN_PROGRAM_H
#define JESPAN_CMD_RUN_PROGRAM_H

#include <limits.h>

struct run_program {
    char path[PATH_MAX];
};

/* Finds the program as the shell would. Returns 0, or STATUS_NOT_FOUND or STATUS_NOT_EXECUTABLE after saying so. */
int run_program_find(struct run_program *program, const char *name);

/* Warns when the loader will not put `library` into the program: linked statically, with raised privileges, or built
 * for another machine. Looks through the interpreter lines of scripts. */
void run_program_check(const struct run_program *program, const char *library);

#endif
