/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions and lines of calls, for services.
 *
 * A file with debug information may be damaged or hostile, and this process has threads. So a process of the command reads it:
 * `jespan symbolize --calls` (src/cmd/symbolize_calls.c), which has one child for each binary. The sidecar keeps what it says.
 * A thread asks, so that nobody waits. */
#ifndef JESPAN_CALL_NAMES_H
#define JESPAN_CALL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/service.h"

/* service.h has the meaning of name_calls() and end_names(). */
size_t call_names_find(struct service_call *calls, size_t n);
void call_names_end(void);

/* ---- call_names_ask.c: asks a process. Both ends are the same program, so they send structures as they are ---- */

#define CALL_NAMES_TEXT_BYTES 256 /* of a name or a file, with the 0 at its end; a longer one is cut */
#define CALL_NAMES_FUNCTIONS 64   /* at one call */

#define CALL_NAMES_BUILD_ID_BYTES 129 /* hexadecimal, with the 0 at its end */

/* A question, followed by the bytes of the path and of the build id. Without a path, both are those of the question before it.
 * Questions are sorted by binary and offset. */
struct call_names_question {
    uint64_t offset;
    uint32_t path_bytes, build_id_bytes;
};

/* The functions of a question, followed by them. */
struct call_names_answer {
    uint32_t question, n_functions;
};

/* Followed by the bytes of both texts. */
struct call_names_function {
    uint32_t line, role, name_bytes, file_bytes;
};

/* A call that is asked for. Another file at the path, with another build id, gives no names. */
struct call_names_call {
    const char *path, *build_id;
    uint64_t offset;
};

/* Calls take() for each of n calls whose functions are found, in any order. The texts are valid during the call. Returns false if the
 * process did not end well: it may have left out any of them. */
bool call_names_ask(const struct call_names_call *calls, uint32_t n,
                    void (*take)(void *data, uint32_t i, const struct service_function *functions, uint32_t n_functions), void *data);

#endif
