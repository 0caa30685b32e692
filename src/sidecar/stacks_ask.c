/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks a process to take other stacks. */
#include "sidecar/stacks_ask.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "snapshot/mailbox_outside.h"
#include "stacks/stacks.h"

int stacks_ask(pid_t pid, const char *mode)
{
    struct mailbox_outside m;
    struct mailbox_request request = {.verb = MAILBOX_SET, .name = "spans.stacks"};
    struct mailbox_answer answer;
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (strlen(mode) >= STACK_MODE_BYTES)
        return -EINVAL;
    strcpy(request.words, mode);
    int error = mailbox_open(&m, pid, now);
    if (error)
        return error;
    error = mailbox_ask(&m, &request, &answer, now, MAILBOX_LEAVE);
    mailbox_close(&m);
    return error == -EINPROGRESS ? 0 : error ? error : -answer.error;
}
