/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan run`: the library and the program to start (run_library.c, run_program.c), and the program's environment
 * (run_environment.c). A function that returns an exit status returns 0, or prints an error and returns the status. */
#ifndef JESPAN_CMD_RUN_H
#define JESPAN_CMD_RUN_H

#include <limits.h>
#include <stdbool.h>

/* The command line. NULL = not given. */
struct run_options {
    const char *dump_dir, *interval, *keep, *conf, *lib;
    const char *pyroscope, *app, *http;
    const char *limit, *arena, *dump_on, *only;
    const char *dir_files, *dir_bytes;
    bool follow_fork, time, help;
};

struct run_library {
    char path[PATH_MAX];    /* absolute */
    char modules[PATH_MAX]; /* the directory of its modules; "" if that is the one that was configured */
};

/* Finds the library: `wanted`, else JESPAN_LIB, else beside this command (a build directory or an installation, also one that
 * was moved), else where it was configured to be. Returns 0 or STATUS_PREPARE. */
int run_library_find(struct run_library *library, const char *wanted);

struct run_program {
    char path[PATH_MAX];
};

/* Finds the program as the shell does. Returns 0, STATUS_NOT_FOUND or STATUS_NOT_EXECUTABLE. */
int run_program_find(struct run_program *program, const char *name);

/* Warns if the loader will not preload `library` into the program: if it is linked statically, runs with raised privileges, or
 * is built for another machine. Looks at the interpreter of a script. */
void run_program_check(const struct run_program *program, const char *library);

/* Returns true if heap dumps are wanted: with services only if there is an option for dumps. */
bool run_wants_dumps(const struct run_options *options);

/* Sets `dump_dir` (PATH_MAX bytes) to an absolute path that exists and can be written to. Sets it to "" if the user's
 * configuration names the directory, which is then left to the library. Returns 0 or STATUS_PREPARE. */
int run_dump_dir_choose(char *dump_dir, const struct run_options *options);

/* Warns if forked processes shall write dumps and only root can: a server's workers run as another user. */
void run_dump_dir_check_workers(const char *dump_dir, const struct run_options *options);

/* The environment of the program: that of this process, with two variables before it. They come first because jespan may look
 * for them before libc is ready, and then sees only the beginning. */
struct run_environment {
    char *preload, *conf;
    char **all;
};

/* Makes the environment. `dump_dir` may be "". Returns 0 or STATUS_PREPARE. Its memory is never freed: the process becomes the
 * program. */
int run_environment_make(struct run_environment *environment, const struct run_options *options, const char *dump_dir,
                         const struct run_library *library);

#endif
