/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports for another process until it ends. */
#ifndef JESPAN_SIDECAR_H
#define JESPAN_SIDECAR_H

#include <stdbool.h>
#include <sys/types.h>

struct sidecar_options {
    pid_t pid;
    int pidfd;     /* of that process */
    int page;      /* a memfd to share with the program; -1: none */
    int ready;     /* gets an int when the process may go on: 0, or the errno if the sidecar cannot work. -1: none */
    bool is_early; /* the process has yet to execute its program */
    bool quiet;    /* no line at the end */
};

/* Uses `conf`, which is set. Blocks all signals; SIGTERM and SIGINT end it, SIGINT not if it is early. Returns 0, or
 * the negative errno of view_open() if the process cannot be read and is not early. */
int sidecar_run(const struct sidecar_options *options);

#endif
