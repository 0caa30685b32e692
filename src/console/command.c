/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommand that runs, and the messages of all subcommands. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *running;

int cmd_run(const struct command *command, int argc, char **argv)
{
    running = command;
    return command->run(argc, argv);
}

int cmd_usage(const struct command *command)
{
    fputs(command->usage, stdout);
    return cmd_finish_output();
}

int cmd_help(void)
{
    return cmd_usage(running);
}

static void say(const char *kind, const char *format, va_list args)
{
    fflush(stdout);
    fprintf(stderr, "jespan: %s", kind);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void cmd_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

void cmd_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("warning: ", format, args);
    va_end(args);
}

void cmd_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("note: ", format, args);
    va_end(args);
}

int cmd_fail(const char *what, const char *reason, int status)
{
    cmd_error("%s: %s", what, reason);
    return status;
}

pid_t cmd_pid(const char *word)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    return word[0] >= '1' && word[0] <= '9' && !*end && !errno && number == (pid_t)number ? (pid_t)number : 0;
}

int cmd_no_pid(const char *word)
{
    cmd_error("'%s' is not the number of a process", word);
    return STATUS_USAGE;
}

int cmd_finish_output(void)
{
    bool has_failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !has_failed)
        return 0;
    bool is_over = errno == 0 && write(STDOUT_FILENO, "\n", 1) > 0; /* a write that failed earlier: another one tells the reason */
    cmd_error("cannot write the output: %s", is_over ? "write error" : strerror(errno));
    return STATUS_WRITE;
}
