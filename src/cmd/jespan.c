/* SPDX-License-Identifier: BSD-2-Clause */
/* The command `jespan`: finds the subcommand and runs it.
 *
 * To add a subcommand, write a file that defines `const struct command command_NAME`, and add its row to COMMANDS.
 */
#include <config.h>

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "console/command.h"

#define COMMANDS(ROW) \
    ROW(run)          \
    ROW(serve)        \
    ROW(check)        \
    ROW(report)       \
    ROW(html)         \
    ROW(leaks)        \
    ROW(symbolize)    \
    ROW(dump)         \
    ROW(ps)           \
    ROW(rss)          \
    ROW(threads)      \
    ROW(top)          \
    ROW(ctl)          \
    ROW(conf)

/* Weak: the address of a command that was left out at configure is NULL. */
#define DECLARE(name) extern const struct command command_##name __attribute__((weak));
COMMANDS(DECLARE)

#define ADDRESS(name) &command_##name,
static const struct command *const commands[] = {COMMANDS(ADDRESS)};

#define NAME(name) #name,
static const char *const names[] = {COMMANDS(NAME)};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i] && strcmp(commands[i]->name, name) == 0)
            return commands[i];
    bool is_known = false;
    for (size_t i = 0; i < N_COMMANDS; i++)
        is_known |= strcmp(names[i], name) == 0;
    if (is_known)
        cmd_error("'%s' is not part of this build of jespan, which was configured with --disable-pprof", name);
    else
        cmd_error("unknown command '%s'; see 'jespan --help'", name);
    return NULL;
}

static int help_all(FILE *to)
{
    fprintf(to, "usage: jespan COMMAND [OPTION…]\n\nWhich span holds the memory of a program.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i])
            fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n'jespan help COMMAND' says more; 'jespan --version' the version.\n");
    return to == stdout ? cmd_finish_output() : STATUS_USAGE;
}

static int help(const char *name)
{
    const struct command *command = find(name);
    return command ? cmd_usage(command) : STATUS_USAGE;
}

static int version(void)
{
    printf("jespan %s\n", PACKAGE_VERSION);
    return cmd_finish_output();
}

static int run(int argc, char **argv)
{
    const struct command *command = find(argv[0]);
    if (!command)
        return STATUS_USAGE;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return cmd_usage(command);
    if (strcmp(argv[0], "run") != 0 && strcmp(argv[0], "check") != 0)
        signal(SIGCHLD, SIG_DFL); /* who ignores it is not told how a child ended. These two leave that to the program */
    return cmd_run(command, argc, argv);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return help_all(stderr);
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0)
        return version();
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return argc > 2 ? help(argv[2]) : help_all(stdout);
    if (word[0] == '-') {
        cmd_error("unknown option '%s'; see 'jespan --help'", word);
        return STATUS_USAGE;
    }
    return run(argc - 1, argv + 1);
}
