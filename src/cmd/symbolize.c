/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan symbolize`: writes functions and lines into a profile, so that it can be read on another machine. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "console/command.h"
#include "console/options.h"
#include "profile/profile.h"
#include "profile/symbolize.h"
#include "symbolize_calls.h"

/* A device or a FIFO is written to, and not replaced by a file. */
static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static int write_and_close(const struct profile *profile, int fd)
{
    int error = fd < 0 ? -errno : profile_write(profile, fd);
    return fd >= 0 && close(fd) != 0 && error == 0 ? -errno : error;
}

/* A file is written beside its place and then moved there: it may be the one that was read. */
static int replace_file(const struct profile *profile, const char *path)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    int error = write_and_close(profile, fd);
    if (error == 0 && rename(temporary, path) != 0)
        error = -errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

static int write_file(const struct profile *profile, const char *path)
{
    int error = strcmp(path, "-") == 0 ? profile_write(profile, STDOUT_FILENO)
        : is_special(path)             ? write_and_close(profile, open(path, O_WRONLY | O_CLOEXEC))
                                       : replace_file(profile, path);
    return error == 0 ? 0 : cmd_fail(path, strerror(-error), STATUS_WRITE);
}

static int symbolize_file(const char *from, const char *to)
{
    struct profile profile;
    const char *reason = profile_read(&profile, from);
    int error = reason ? 0 : symbolize_profile(&profile, false);
    if (error != 0)
        reason = error == -E2BIG ? "too many functions" : "out of memory";
    int status = reason ? cmd_fail(from, reason, STATUS_USAGE) : write_file(&profile, to);
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
    if (!word)
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
