/* SPDX-License-Identifier: BSD-2-Clause */
/* A subcommand of `jespan`, the messages of all of them, and their exit statuses. */
#ifndef JESPAN_CONSOLE_COMMAND_H
#define JESPAN_CONSOLE_COMMAND_H

#include <sys/types.h>

struct command {
    const char *name;
    const char *summary; /* one line of `jespan --help` */
    const char *usage;   /* the text of `jespan help NAME` */
    /* argv[0] is the name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

enum {
    STATUS_WRITE = 1,            /* the output could not be written */
    STATUS_USAGE = 2,            /* a wrong command line or file */
    STATUS_PREPARE = 125,        /* `run` could not prepare the program; 125 to 127 are those of env(1) */
    STATUS_NOT_EXECUTABLE = 126, /* the program exists but cannot be run */
    STATUS_NOT_FOUND = 127,      /* there is no such program */
};

/* Prints "jespan: …" on stderr. */
void cmd_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cmd_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cmd_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the error "WHAT: REASON". Returns the status. */
int cmd_fail(const char *what, const char *reason, int status);

/* Runs a subcommand. Returns its exit status. */
int cmd_run(const struct command *command, int argc, char **argv);

/* Prints the usage of the subcommand that runs, and that of any. Return the exit status. */
int cmd_help(void);
int cmd_usage(const struct command *command);

/* The number of a process; 0: the word is none. */
pid_t cmd_pid(const char *word);

/* Prints that the word is not the number of a process. Returns STATUS_USAGE. */
int cmd_no_pid(const char *word);

/* Flushes stdout. Returns 0, or prints an error and returns STATUS_WRITE. */
int cmd_finish_output(void);

#endif
