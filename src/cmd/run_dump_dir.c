/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses, creates and checks the directory for dumps. */
#include "run_dump_dir.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "run_environment.h"

/* Whether the user says in configuration syntax where dumps go. */
static bool names_dump_dir(const char *conf)
{
    return conf != NULL && (strncmp(conf, "dump_dir:", 9) == 0 || strstr(conf, ",dump_dir:") != NULL);
}

/* Creates a directory and those above it. 0 or an errno. */
static int create_directories(const char *directory)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s", directory) >= sizeof path)
        return ENAMETOOLONG;
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777); /* where it fails, the last one will too */
        *slash = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

/* `path` becomes absolute, since the program may change its directory. */
static int prepare_dump_dir(char *path, const char *wanted)
{
    struct stat status;
    int unusable = run_environment_check_value(wanted); /* before anything is made */
    if (unusable != 0)
        return unusable;
    int error = wanted[0] == '\0' ? ENOENT : create_directories(wanted);
    if (error == 0 && (realpath(wanted, path) == NULL || stat(path, &status) != 0))
        error = errno;
    if (error == 0)
        error = !S_ISDIR(status.st_mode) ? ENOTDIR : access(path, W_OK | X_OK) != 0 ? errno : 0;
    if (error == 0)
        return run_environment_check_value(path);
    cmd_error("cannot write dumps to '%s': %s", wanted, strerror(error));
    return STATUS_PREPARE;
}

/* Whether only root can write there. */
static bool is_for_root_alone(const char *path)
{
    char above[PATH_MAX];
    struct stat status;
    if (stat(path, &status) == 0 && status.st_uid == 0 && (status.st_mode & S_IWOTH) == 0
        && (status.st_gid == 0 || (status.st_mode & S_IWGRP) == 0))
        return true;
    strcpy(above, path);
    for (char *slash; (slash = strrchr(above, '/')) != NULL && slash != above;) {
        *slash = '\0';
        if (stat(above, &status) == 0 && status.st_uid == 0 && status.st_gid == 0 && (status.st_mode & S_IXOTH) == 0)
            return true;
    }
    return false;
}

void run_dump_dir_check_workers(const char *dump_dir, const struct run_options *options)
{
    if (options->follow_fork && dump_dir[0] != '\0' && geteuid() == 0 && is_for_root_alone(dump_dir))
        cmd_warning("only root can write to '%s': processes that run as another user, such as a server's workers, write no dumps "
                    "there; give the directory to their user, or name another with --dump-dir",
                    dump_dir);
}

int run_dump_dir_choose(char *dump_dir, const struct run_options *options)
{
    dump_dir[0] = '\0';
    if (options->dump_dir != NULL)
        return prepare_dump_dir(dump_dir, options->dump_dir);
    if (names_dump_dir(getenv("JESPAN_CONF")) || names_dump_dir(options->conf))
        return 0;
    return prepare_dump_dir(dump_dir, ".");
}
