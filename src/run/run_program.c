/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds a program in PATH, and finds out whether a library can be preloaded into it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "console/command.h"
#include "run.h"

#define DEFAULT_PATH "/bin:/usr/bin" /* that of execvp() without PATH */
#define MAX_INTERPRETERS 4           /* the kernel follows as many */

/* Returns 0, or the errno that says why the file cannot be run. */
static int check(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

static int try_in(struct run_program *program, const char *directory, size_t directory_bytes, const char *name)
{
    int bytes = snprintf(program->path, sizeof program->path, "%.*s/%s", (int)directory_bytes, directory, name);
    if (bytes < 0 || (size_t)bytes >= sizeof program->path)
        return ENAMETOOLONG;
    return check(program->path);
}

static int take(struct run_program *program, const char *path)
{
    if (strlen(path) >= sizeof program->path)
        return ENAMETOOLONG;
    strcpy(program->path, path);
    return check(path);
}

/* Like execvp(), looks further if it finds a file that may not be run. */
static int search(struct run_program *program, const char *name)
{
    const char *path = getenv("PATH");
    int error = ENOENT;
    for (const char *at = path ? path : DEFAULT_PATH;; at++) {
        size_t bytes = strcspn(at, ":");
        int this_error = try_in(program, bytes > 0 ? at : ".", bytes > 0 ? bytes : 1, name);
        if (this_error == 0)
            return 0;
        if (this_error == EACCES)
            error = EACCES;
        at += bytes;
        if (*at == '\0')
            return error;
    }
}

int run_program_find(struct run_program *program, const char *name)
{
    bool has_path = strchr(name, '/');
    int error = name[0] == '\0' ? ENOENT : has_path ? take(program, name) : search(program, name);
    if (error == 0)
        return 0;
    cmd_error("cannot run '%s': %s", name, strerror(error));
    return error == ENOENT || error == ENOTDIR ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* The loader ignores LD_PRELOAD in a program with raised privileges. */
static bool is_privileged(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    return ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid())
        || ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid())
        || (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Replaces the path of a script that begins with "#!" by that of its interpreter, which may be anything: O_NONBLOCK keeps open()
 * from waiting for the writer of a FIFO. */
static bool follow_script(char *path)
{
    char line[256] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t bytes = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    if (bytes < 2 || memcmp(line, "#!", 2) != 0)
        return false;
    const char *interpreter = line + 2 + strspn(line + 2, " \t");
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(interpreter, " \t\r\n"), interpreter);
    return true;
}

bool run_program_check(const struct run_program *program, const char *library)
{
    char path[PATH_MAX];
    struct run_elf elf, ours;
    strcpy(path, program->path);
    for (int i = 0; i < MAX_INTERPRETERS && follow_script(path); i++)
        continue;
    if (!run_elf_read(&elf, path))
        return true;
    if (elf.has_jespan)
        return !elf.is_dynamic;
    if (elf.is_of_musl)
        cmd_warning("%s is for musl: jespan cannot track it", path);
    else if (!elf.is_dynamic)
        cmd_warning("%s is statically linked, without libjespan.a: jespan cannot track it", path);
    else if (run_elf_read(&ours, library) && !run_elf_same_machine(&ours, &elf))
        cmd_warning("%s is for another kind of machine than %s: jespan cannot track it", path, library);
    else if (is_privileged(path))
        cmd_warning("%s runs with raised privileges: jespan cannot track it", path);
    return !elf.is_of_musl;
}
