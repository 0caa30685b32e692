/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds libjespan.so and its modules. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "console/command.h"
#include "run.h"

#define LIBRARY "libjespan.so"

/* Relative to the command: a libtool build, also seen from .libs/, and an installation. */
static const char *const beside[] = {".libs/" LIBRARY, LIBRARY, "../lib/" LIBRARY};

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, R_OK) == 0;
}

/* Sets `directory` to `path` up to its last slash. */
static void directory_of(char *directory, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(directory, PATH_MAX, "%.*s", !slash ? 0 : (int)(slash - path), path);
}

static bool own_directory(char *directory)
{
    char self[PATH_MAX];
    if (!realpath(run_elf_own(), self))
        return false;
    directory_of(directory, self);
    return true;
}

/* Returns false if there is no such file. */
static bool take(struct run_library *library, const char *directory, const char *name)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return is_file(path) && realpath(path, library->path);
}

static bool take_beside(struct run_library *library)
{
    char directory[PATH_MAX];
    if (!own_directory(directory))
        return false;
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (take(library, directory, beside[i]))
            return true;
    return false;
}

static int take_wanted(struct run_library *library, const char *path)
{
    if (is_file(path) && realpath(path, library->path))
        return 0;
    cmd_error("cannot use the library '%s': %s", path, errno != 0 ? strerror(errno) : "not a file");
    return STATUS_PREPARE;
}

/* The modules of a build are in exporters/.libs/, those of an installation in jespan/ beside the library. */
static void find_modules(struct run_library *library)
{
    static const char *const beside_library[] = {"/../exporters/.libs", "/jespan"};
    char directory[PATH_MAX], module[2 * PATH_MAX];
    directory_of(directory, library->path);
    for (size_t i = 0; i < sizeof beside_library / sizeof beside_library[0]; i++) {
        int bytes = snprintf(module, sizeof module, "%s%s", directory, beside_library[i]);
        if (strcmp(module, JESPAN_MODULE_DIR) == 0)
            return;
        strcpy(module + bytes, "/pprof.so");
        if (is_file(module)) {
            snprintf(library->modules, sizeof library->modules, "%.*s", bytes, module);
            return;
        }
    }
}

/* The loader prints a warning at most if it cannot preload a file, and the program would run untracked. */
static int check_library(const struct run_library *library)
{
    if (run_elf_exports(library->path, "jespan_attach"))
        return 0;
    cmd_error("%s: not a jespan library for this machine; name a " LIBRARY " with --lib or JESPAN_LIB", library->path);
    return STATUS_PREPARE;
}

/* LD_PRELOAD has no quotes for the characters that separate its names. */
static int check_name(const struct run_library *library)
{
    if (!strpbrk(library->path, " :$"))
        return 0;
    cmd_error("%s: LD_PRELOAD cannot name a library whose path has a ' ', ':' or '$'", library->path);
    return STATUS_PREPARE;
}

int run_library_find(struct run_library *library, const char *wanted)
{
    memset(library, 0, sizeof *library);
    errno = 0;
    if (!wanted || wanted[0] == '\0')
        wanted = getenv("JESPAN_LIB");
    if (wanted && wanted[0] != '\0') {
        int status = take_wanted(library, wanted);
        if (status != 0)
            return status;
    } else if (!take_beside(library) && !take(library, JESPAN_LIBDIR, LIBRARY)) {
        cmd_error("cannot find " LIBRARY " beside this command or in %s; name it with --lib or JESPAN_LIB",
                  JESPAN_LIBDIR);
        return STATUS_PREPARE;
    }
    find_modules(library);
    int status = check_name(library);
    return status != 0 ? status : check_library(library);
}
