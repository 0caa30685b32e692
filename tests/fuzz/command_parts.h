/* SPDX-License-Identifier: BSD-2-Clause */
/* What src/console/command.c has, for fuzz targets that are linked with the other files of the command: messages go nowhere. */
#ifndef JESPAN_TESTS_COMMAND_PARTS_H
#define JESPAN_TESTS_COMMAND_PARTS_H

#include <stdarg.h>
#include <sys/types.h>

#include "src/console/command.h"

void cmd_error(const char *format, ...)
{
    (void)format;
}

void cmd_warning(const char *format, ...)
{
    (void)format;
}

void cmd_note(const char *format, ...)
{
    (void)format;
}

pid_t cmd_pid(const char *word)
{
    (void)word;
    return 0;
}

int cmd_no_pid(const char *word)
{
    (void)word;
    return STATUS_USAGE;
}

int cmd_fail(const char *what, const char *reason, int status)
{
    (void)what;
    (void)reason;
    return status;
}

int cmd_finish_output(void)
{
    return 0;
}

int cmd_help(void)
{
    return 0;
}

#endif
