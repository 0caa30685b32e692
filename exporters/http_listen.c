/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets of the service `http`. */
#include "http_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"

#define BACKLOG 128
#define LOCK_TRIES 200 /* others hold the lock only while they begin to listen */
#define LOCK_PAUSE_NS 5000000

/* ---- In a forked child ---- */

/* The listening descriptor, and in the upper half the process that made it. 0: none. */
static _Atomic uint64_t listening, listening_cookie;

static uint64_t pack(int fd)
{
    return (uint64_t)getpid() << 32 | (uint32_t)fd;
}

/* Returns a number that no other socket has. 0: not a socket, or the kernel (before 4.12) has no cookies. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t bytes = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) != 0 ? 0 : cookie;
}

/* Two threads may call this at once: in a child, a service may begin before all fork handlers have run. The program
 * may have closed all descriptors and use the number for another file, which has another cookie. */
static void close_inherited(void)
{
    uint64_t was = atomic_load(&listening);
    if (was >> 32 != 0 && was >> 32 != (uint64_t)getpid() && atomic_compare_exchange_strong(&listening, &was, 0)
        && cookie_of((int)(uint32_t)was) == atomic_load(&listening_cookie))
        close((int)(uint32_t)was);
}

static void register_fork_handler(void)
{
    static bool registered;
    if (!registered)
        registered = pthread_atfork(NULL, NULL, close_inherited) == 0;
}

/* ---- Sockets ---- */

static bool is_unix(const struct http_address *a)
{
    return a->socket.any.sa_family == AF_UNIX;
}

static const char *why_not_allowed(const struct http_address *a)
{
    if (is_unix(a))
        return "permission denied: the user of this process may not make a socket in that directory";
    if (http_listen_port(&(struct http_listener){.address = *a}) < 1024)
        return "permission denied: a port below 1024 needs root or the capability CAP_NET_BIND_SERVICE";
    return "permission denied";
}

static const char *why(int error, const struct http_address *a)
{
    switch (error) {
    case EADDRINUSE:
        return "the address is in use";
    case EADDRNOTAVAIL:
        return "this machine has no such address";
    case EACCES:
    case EPERM:
        return why_not_allowed(a);
    case ENOENT:
        return "there is no such directory";
    case EAFNOSUPPORT:
        return "this machine has no such addresses";
    case ENOTSOCK:
        return "the file at the path is not a socket";
    default:
        return strerrordesc_np(error);
    }
}

static int make_socket(int family)
{
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    int fd = descriptor_lift(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    stdio_holes_empty(&holes);
    return fd;
}

static bool is_refused(const struct http_address *a)
{
    int fd = make_socket(AF_UNIX);
    bool refused = fd >= 0 && connect(fd, &a->socket.any, a->bytes) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

/* Removes the socket of a process that has ended. Returns 0 or an errno value. The caller holds the lock of the
 * directory: without it, another process could put its socket there after this check. */
static int remove_stale(const struct http_address *a)
{
    struct stat at;
    if (lstat(a->socket.un.sun_path, &at) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(at.st_mode))
        return ENOTSOCK;
    if (!is_refused(a))
        return EADDRINUSE;
    return unlink(a->socket.un.sun_path) != 0 && errno != ENOENT ? errno : 0;
}

enum { UNLOCKABLE = -1, LOCKED_BY_OTHERS = -2 };

static int try_to_lock(int directory)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(directory, LOCK_EX | LOCK_NB) == 0)
            return directory;
        if (errno != EWOULDBLOCK)
            return UNLOCKABLE;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return LOCKED_BY_OTHERS;
}

/* Locks the directory of the path. Returns the descriptor that holds the lock, or UNLOCKABLE or LOCKED_BY_OTHERS. A
 * directory may be unreadable, and a file system may have no locks. */
static int lock_directory(const char *path)
{
    char directory[sizeof ((struct sockaddr_un *)0)->sun_path + 1] = ".";
    const char *slash = strrchr(path, '/');
    if (slash) {
        memcpy(directory, path, (size_t)(slash - path) + 1);
        directory[slash - path + 1] = '\0';
    }
    int fd = descriptor_open(directory, O_RDONLY | O_DIRECTORY, 0);
    int lock = fd < 0 ? UNLOCKABLE : try_to_lock(fd);
    if (fd >= 0 && lock < 0)
        close(fd);
    return lock;
}

/* Closing is not enough: a child that was forked meanwhile has the descriptor too. */
static void unlock_directory(int lock)
{
    if (lock < 0)
        return;
    flock(lock, LOCK_UN);
    close(lock);
}

/* Nobody can connect before listen(), so setting the mode now is early enough. */
static int restrict_path(struct http_listener *l)
{
    const char *path = l->address.socket.un.sun_path;
    struct stat at;
    if (chmod(path, 0600) != 0 || lstat(path, &at) != 0)
        return errno;
    l->device = at.st_dev;
    l->inode = at.st_ino;
    return 0;
}

/* Keeps the absolute path, because the program may change its directory. */
static void remember_path(struct http_listener *l)
{
    const char *path = l->address.socket.un.sun_path;
    size_t n = 0;
    if (path[0] != '/' && getcwd(l->path, sizeof l->path - sizeof l->address.socket.un.sun_path - 1)) {
        n = strlen(l->path);
        l->path[n++] = '/';
    }
    strcpy(l->path + n, path);
}

static int set_up(struct http_listener *l)
{
    const int yes = 1;
    struct http_address *a = &l->address;
    int error = 0;
    if (!is_unix(a))
        setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->socket.any.sa_family == AF_INET6)
        setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (error == 0 && bind(l->fd, &a->socket.any, a->bytes) != 0)
        error = errno;
    if (error == 0 && is_unix(a))
        error = restrict_path(l);
    else if (error == 0 && getsockname(l->fd, &a->socket.any, &a->bytes) != 0)
        error = errno;
    if (error == 0) { /* must be known before it listens */
        atomic_store(&listening_cookie, cookie_of(l->fd));
        atomic_store(&listening, pack(l->fd));
    }
    return error == 0 && listen(l->fd, BACKLOG) != 0 ? errno : error;
}

/* Locked until it listens: before that, another process would take the socket for stale. */
static int set_up_path(struct http_listener *l)
{
    int lock = lock_directory(l->address.socket.un.sun_path);
    int error = lock == LOCKED_BY_OTHERS ? EADDRINUSE : remove_stale(&l->address);
    if (error == 0) {
        remember_path(l);
        error = set_up(l);
    }
    unlock_directory(lock);
    return error;
}

const char *http_listen_open(struct http_listener *l, const struct http_address *address)
{
    close_inherited();
    register_fork_handler();
    *l = (struct http_listener){.pid = getpid(), .address = *address};
    l->fd = make_socket(address->socket.any.sa_family);
    int error = l->fd < 0 ? errno : is_unix(address) ? set_up_path(l) : set_up(l);
    if (error == 0)
        return NULL;
    http_listen_close(l);
    return why(error, address);
}

/* Removes the socket at the path only if it is still this one. */
static void remove_path(const struct http_listener *l)
{
    struct stat at;
    if (l->inode != 0 && lstat(l->path, &at) == 0 && at.st_dev == l->device && at.st_ino == l->inode)
        unlink(l->path);
}

/* Shuts down first: a child that has inherited the descriptor must not keep the port. */
void http_listen_close(struct http_listener *l)
{
    uint64_t own = pack(l->fd);
    if (l->fd < 0 || l->pid != getpid())
        return;
    if (is_unix(&l->address))
        remove_path(l);
    atomic_compare_exchange_strong(&listening, &own, 0);
    shutdown(l->fd, SHUT_RDWR);
    close(l->fd);
    l->fd = -1;
}

void http_listen_forget(struct http_listener *l)
{
    uint64_t own = pack(l->fd), cookie = cookie_of(l->fd);
    if (cookie && cookie == atomic_load(&listening_cookie))
        http_listen_close(l);
    atomic_compare_exchange_strong(&listening, &own, 0);
    l->fd = -1;
}

uint16_t http_listen_port(const struct http_listener *l)
{
    return ntohs(l->address.socket.any.sa_family == AF_INET6 ? l->address.socket.in6.sin6_port
                                                             : l->address.socket.in.sin_port);
}

int http_listen_accept(const struct http_listener *l, struct sockaddr_storage *peer, socklen_t *peer_bytes)
{
    struct stdio_holes holes;
    *peer_bytes = sizeof *peer;
    stdio_holes_fill(&holes);
    int fd = descriptor_lift(accept4(l->fd, (struct sockaddr *)peer, peer_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    stdio_holes_empty(&holes);
    return fd;
}
