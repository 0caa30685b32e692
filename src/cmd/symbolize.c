/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan symbolize`: writes functions and lines into a profile, so that it can be read on another machine. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "console/command.h"
#include "console/options.h"
#include "console/output.h"
#include "profile/profile.h"
#include "profile/symbolize.h"
#include "symbolize_calls.h"

static int write_profile(FILE *to, const void *data)
{
    return profile_write(data, fileno(to));
}

static int symbolize_file(const char *from, const char *to)
{
    struct profile profile;
    const char *reason = profile_read(&profile, from);
    int error = reason ? 0 : symbolize_profile(&profile, 0, 0);
    if (error != 0)
        reason = error == -E2BIG ? "too many functions" : "out of memory";
    int status = reason ? cmd_fail(from, reason, STATUS_USAGE) : cmd_write_file(to, write_profile, &profile);
    profile_free(&profile);
    return status;
}

static int run(int argc, char **argv)
{
    const char *output = NULL;
    bool of_sidecar = false;
    const struct cmd_option rows[] = {
        {"output", 'o', .text = &output},
        {"calls", .on = &of_sidecar}, /* not for users: a sidecar started this process */
        {0},
    };
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    if (of_sidecar)
        return symbolize_calls();
    const char *word = cmd_only_word(argc, argv, "FILE");
    if (!word || (output && cmd_output_name(output) != 0))
        return STATUS_USAGE;
    return symbolize_file(word, output ? output : word);
}

const struct command command_symbolize = {
    .name = "symbolize",
    .summary = "write the names of functions into a dump with stacks",
    .usage =
        "usage: jespan symbolize [-o OUT] FILE.pb.gz\n"
        "\n"
        "Writes the functions, files and lines of a dump's stacks into it, so that it can be\n"
        "read on a machine that does not have the programs. FILE may be any heap profile in\n"
        "pprof's format. 'jespan report --stacks' and 'jespan leaks' find the same names\n"
        "themselves.\n"
        "\n"
        "  -o, --output OUT  writes OUT and leaves FILE; - is standard output\n"
        "\n"
        "Names come from the programs and libraries that FILE names, if their build ids are\n"
        "the same, and from their debug files: by .gnu_debuglink, below /usr/lib/debug, and\n"
        "from the servers of $DEBUGINFOD_URLS, if that is set.\n"
        "\n"
        "Exit status: 0, also where names are missing; 1 the output could not be written; 2\n"
        "wrong command line or file.\n",
    .run = run,
};
