/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks a process to take other stacks. */
#ifndef JESPAN_SIDECAR_STACKS_ASK_H
#define JESPAN_SIDECAR_STACKS_ASK_H

#include <sys/types.h>

/* `mode` is that of `spans.stacks`. Leaves the request in the process, which takes it when it next allocates. Returns 0 or a
 * negative errno of mailbox_ask(), or EINVAL: the text is too long. Any thread may call it. */
int stacks_ask(pid_t pid, const char *mode);

#endif
