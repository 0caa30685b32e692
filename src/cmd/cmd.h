/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the command `jespan` share: what a subcommand is, how errors are said, exit codes. */
#ifndef JESPAN_CMD_H
#define JESPAN_CMD_H

struct command {
    const char *name;
    const char *summary; /* its line in `jespan --help` */
    const char *usage;   /* the whole of `jespan help NAME` */
    /* argv[0] is what errors start with ("jespan report"). Returns the exit status. */
    int (*run)(int argc, char **argv);
};

enum {
    STATUS_WRITE = 1,            /* our output could not be written */
    STATUS_USAGE = 2,            /* a wrong command line, or a file that is not what it should be */
    STATUS_PREPARE = 125,        /* `run` could not set things up; 125 to 127 as env(1) has them */
    STATUS_NOT_EXECUTABLE = 126, /* the program is there but cannot be run */
    STATUS_NOT_FOUND = 127,      /* there is no such program */
};

/* Says "jespan: …" on stderr. */
void cmd_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cmd_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes stdout. Returns 0, or STATUS_WRITE after saying what went wrong. */
int cmd_finish_output(void);

#endif
