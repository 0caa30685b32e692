/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes files so that none is left half written. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

typedef int write_file(FILE *to, const void *data);

static int write_and_close(int fd, write_file *write, const void *data)
{
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    int error = to ? write(to, data) : -errno;
    if (fd >= 0 && !to)
        close(fd);
    return to && fclose(to) != 0 && error == 0 ? -errno : error;
}

/* ---- Through a descriptor, and in place ---- */

#define MOST_DESCRIPTORS 1024

/* The descriptor by which this process can write to the file already, as /dev/stdout names one. Through another one, the file
 * would be written from its beginning, and what the shell or others have written to it be lost. Sets *is_open if any
 * descriptor has the file. */
static int find_descriptor(const char *path, const struct stat *at, bool *is_open)
{
    struct stat other;
    bool is_named = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    *is_open = false;
    for (int fd = 0; fd < MOST_DESCRIPTORS; fd++) {
        if (fstat(fd, &other) != 0 || other.st_dev != at->st_dev || other.st_ino != at->st_ino)
            continue;
        *is_open = true;
        if ((is_named || fd == STDOUT_FILENO || fd == STDERR_FILENO) && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return fd;
    }
    return -1;
}

/* Without O_CREAT where there is a file: in a directory like /tmp, the kernel would refuse another user's. */
static int write_in_place(const char *path, bool is_there, write_file *write, const void *data)
{
    return write_and_close(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | (is_there ? 0 : O_CREAT), 0666), write, data);
}

/* ---- Beside, and then moved ---- */

#define SUFFIX ".XXXXXX"

static char temporary[PATH_MAX];
static volatile sig_atomic_t has_temporary;
static const int deadly[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU};

static void remove_and_die(int number)
{
    if (has_temporary)
        unlink(temporary);
    raise(number); /* the handler is gone by now */
}

static void catch_signals(sigset_t *caught)
{
    const struct sigaction action = {.sa_handler = remove_and_die, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    struct sigaction before;
    sigemptyset(caught);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        sigaddset(caught, deadly[i]);
        if (sigaction(deadly[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(deadly[i], &action, NULL);
    }
}

/* Signals wait while the file gets its name. */
static int create_temporary(void)
{
    sigset_t caught, before;
    catch_signals(&caught);
    sigprocmask(SIG_BLOCK, &caught, &before);
    int fd = mkostemp(temporary, O_CLOEXEC), error = errno;
    has_temporary = fd >= 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return fd < 0 ? -errno : fd;
}

/* The name is that of the file, cut where it would be too long. Returns a descriptor, or a negative errno. */
static int begin_beside(const char *place)
{
    const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
    size_t bytes = strlen(name), most = NAME_MAX - strlen(SUFFIX);
    int n = (int)((size_t)(name - place) + (bytes < most ? bytes : most));
    if (snprintf(temporary, sizeof temporary, "%.*s" SUFFIX, n, place) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    return create_temporary();
}

/* A file without a name, which a process that is killed does not leave. Returns −1 where the file system or the system has none. */
static int begin_nameless(const char *place)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(place, '/');
    int n = slash ? (int)(slash - place) + 1 : 1;
    if (access("/proc/self/fd", X_OK) != 0 || snprintf(directory, sizeof directory, "%.*s", n, slash ? place : ".") != n)
        return -1;
    return open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

/* A new file gets its name here. Another one keeps its place until the new one is moved there: it has a temporary name before. */
static int give_name(int fd, const char *place)
{
    char file[40];
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, file, AT_FDCWD, place, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    int named = errno == EEXIST ? begin_beside(place) : -EXDEV; /* it is then written in place */
    if (named < 0)
        return named;
    close(named);
    unlink(temporary); /* linkat() replaces nothing */
    int error = linkat(AT_FDCWD, file, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) != 0 || rename(temporary, place) != 0 ? -errno : 0;
    if (error != 0)
        unlink(temporary);
    has_temporary = false;
    return error;
}

/* A new file has the mode that open(2) gives, another one keeps its own, and its group. Returns 0 or a negative errno. */
static int take_rights(int fd, const struct stat *old)
{
    mode_t mask = umask(0);
    umask(mask);
    if (old && fchown(fd, (uid_t)-1, old->st_gid) != 0)
        return -errno;
    return fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask) != 0 ? -errno : 0;
}

static int replace_file(const char *path, const struct stat *old, write_file *write, const void *data)
{
    char place[PATH_MAX];
    if (!realpath(path, place) && snprintf(place, sizeof place, "%s", path) >= (int)sizeof place)
        return -ENAMETOOLONG;
    int nameless = begin_nameless(place), fd = nameless >= 0 ? fcntl(nameless, F_DUPFD_CLOEXEC, 0) : begin_beside(place);
    int error = fd < 0 ? (nameless >= 0 ? -errno : fd) : take_rights(fd, old);
    if (error == 0)
        error = write_and_close(fd, write, data);
    else if (fd >= 0)
        close(fd);
    if (nameless >= 0) {
        error = error == 0 ? give_name(nameless, place) : error;
        close(nameless);
        return error;
    }
    if (error == 0 && rename(temporary, place) != 0)
        error = -errno;
    if (error != 0 && has_temporary)
        unlink(temporary);
    has_temporary = false;
    return error;
}

/* ---- Which of them ---- */

/* Other users and links keep the file that they have. */
static bool may_replace(const struct stat *old)
{
    return S_ISREG(old->st_mode) && old->st_uid == geteuid() && old->st_nlink == 1;
}

/* Whether the directory, and not the disk, is why the file cannot be written beside its place and moved. */
static bool is_refused(int error)
{
    return error == -EACCES || error == -EPERM || error == -EROFS || error == -ENAMETOOLONG || error == -EBUSY || error == -EXDEV;
}

static int write_path(const char *path, write_file *write, const void *data)
{
    struct stat at, link;
    bool is_there = stat(path, &at) == 0, is_open = false;
    if (!is_there && errno != ENOENT)
        return -errno;
    if (!is_there && lstat(path, &link) == 0)
        return -ENOENT;
    int fd = is_there ? find_descriptor(path, &at, &is_open) : -1;
    if (fd >= 0)
        return write_and_close(fcntl(fd, F_DUPFD_CLOEXEC, 0), write, data);
    if (is_there && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return -errno;
    bool in_place = is_open || (is_there && !may_replace(&at));
    int error = in_place ? 0 : replace_file(path, is_there ? &at : NULL, write, data);
    return in_place || is_refused(error) ? write_in_place(path, is_there, write, data) : error;
}

static int write_to_output(write_file *write, const void *data)
{
    int error = write(stdout, data);
    return error == 0 && (fflush(stdout) != 0 || ferror(stdout)) ? -(errno ? errno : EIO) : error;
}

int cmd_write_file(const char *path, write_file *write, const void *data)
{
    bool is_output = strcmp(path, "-") == 0;
    signal(SIGXFSZ, SIG_IGN); /* a file that becomes too large is an error */
    errno = 0;
    int error = is_output ? write_to_output(write, data) : write_path(path, write, data);
    return error == 0 ? 0 : cmd_fail(is_output ? "cannot write the output" : path, strerror(-error), STATUS_WRITE);
}

int cmd_output_name(const char *path)
{
    if (path[0] != '\0')
        return 0;
    cmd_error("--output: the name is empty");
    return STATUS_USAGE;
}
