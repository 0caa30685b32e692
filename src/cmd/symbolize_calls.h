/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan symbolize --calls`, which a sidecar starts. */
#ifndef JESPAN_CMD_SYMBOLIZE_CALLS_H
#define JESPAN_CMD_SYMBOLIZE_CALLS_H

/* Answers the sidecar's questions on standard input. Returns the exit status. */
int symbolize_calls(void);

#endif
