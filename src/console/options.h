/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of a subcommand: a table of its options, and the words after them. */
#ifndef JESPAN_CONSOLE_OPTIONS_H
#define JESPAN_CONSOLE_OPTIONS_H

#include <getopt.h> /* for optind */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An option sets one thing. It takes a value if it sets `text` or `count`, or has `read`. */
struct cmd_option {
    const char *name; /* without the dashes */
    char letter;      /* its short form; 0: none */
    bool *on;         /* becomes true */
    bool *off;        /* becomes false */
    unsigned *choice; /* becomes `chosen`. Rows with other choices for it cannot go with this one */
    unsigned chosen;
    const char **text; /* becomes the value */
    const char *unset; /* may be left out: the value then. NULL: it must be given */
    uint64_t *count;   /* becomes the value, a number from 0 to UINT32_MAX */
    uint64_t *bytes;   /* becomes the value, a number of bytes such as 500K */
    int (*read)(void *data, const char *value); /* returns 0, or prints an error and returns STATUS_USAGE */
    void *data;
};

/* Where the options of a command line may stand. */
enum cmd_order {
    OPTIONS_ANYWHERE,
    OPTIONS_FIRST, /* all from the first other word on belongs to another program */
};

#define OPTIONS_READ (-1)

/* Reads the options of argv; optind is then the index of the first other word. `rows` ends with a NULL name. Returns OPTIONS_READ,
 * or the exit status of the command: after an error, which is printed, and after --help or -h, which prints the usage. */
int cmd_options(int argc, char **argv, const struct cmd_option *rows, enum cmd_order order);

/* Reads a count of rows. Returns 0, or prints an error and returns STATUS_USAGE. */
int cmd_count(const char *option, const char *word, uint64_t *count);

struct cmd_output {
    const char *option, *path; /* NULL: not given */
};

/* Looks whether the files that options name can be written, without making them, and are different files. Standard output ("-") belongs
 * to the program that the command starts. Returns 0, or prints an error and returns STATUS_PREPARE or STATUS_USAGE. */
int cmd_output_files(const struct cmd_output *outputs, size_t n);

/* Refuses "-" as the name of an output. Returns 0, or prints an error and returns STATUS_USAGE. */
int cmd_no_stdout(const char *option, const char *path);

/* The only word after the options, or NULL after an error, which is printed. `what` is its name in the usage. */
const char *cmd_only_word(int argc, char **argv, const char *what);

/* The same for the number of a process. Returns 0 after an error, which is printed. */
pid_t cmd_only_pid(int argc, char **argv);

#endif
