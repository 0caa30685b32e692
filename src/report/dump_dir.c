/* SPDX-License-Identifier: BSD-2-Clause */
/* What others have left in the directory for dumps. */
#include "report/dump_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define NS_PER_S 1000000000u
#define STALE_S 600     /* a temporary file that nobody has written to for so long is nobody's */
#define MAX_VICTIMS 256 /* found in one pass */
#define MAX_PASSES 64

/* ---- Looking through a directory ---- */

struct looking {
    int fd; /* the directory */
    void (*found)(struct looking *l, const char *text, const struct dump_name *name);
};

/* readdir(3) would allocate, which a dump before the OOM killer must not. */
static void look_through(struct looking *l)
{
    static char buffer[32768] __attribute__((aligned(8)));
    struct dump_name name;
    for (ssize_t n; (n = getdents64(l->fd, buffer, sizeof buffer)) > 0;)
        for (const char *at = buffer; at < buffer + n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)at;
            at += entry->d_reclen;
            if ((entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) && dump_name_parse(&name, entry->d_name))
                l->found(l, entry->d_name, &name);
        }
}

static int open_directory(const char *path)
{
    return descriptor_open(path, O_RDONLY | O_DIRECTORY, 0);
}

/* A regular file of this user's. */
static bool look_at(int directory, const char *text, struct stat *at)
{
    return fstatat(directory, text, at, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(at->st_mode) && at->st_uid == geteuid();
}

static void remove_if_stale(int directory, const char *text)
{
    struct stat at;
    if (look_at(directory, text, &at) && at.st_mtim.tv_sec + STALE_S < (time_t)(clock_unix_ns() / NS_PER_S))
        unlinkat(directory, text, 0);
}

/* ---- A new life ---- */

struct lives {
    struct looking looking; /* first */
    uint64_t pid, last;     /* life */
    bool any;
};

static void found_life(struct looking *l, const char *text, const struct dump_name *name)
{
    struct lives *lives = (struct lives *)l;
    if (name->pid != lives->pid)
        return;
    if (name->is_temporary) {
        remove_if_stale(l->fd, text);
        return;
    }
    lives->any = true;
    if (name->life > lives->last)
        lives->last = name->life;
}

uint64_t dump_dir_new_life(const char *directory, uint64_t pid)
{
    struct lives lives = {{open_directory(directory), found_life}, pid, 0, false};
    uint64_t now_ms = clock_unix_ns() / (NS_PER_S / 1000);
    if (lives.looking.fd < 0) /* one that may be written to but not read has what nobody knows */
        return errno == EACCES ? now_ms : 0;
    look_through(&lives.looking);
    close(lives.looking.fd);
    return !lives.any ? 0 : now_ms > lives.last ? now_ms : lives.last + 1;
}

/* ---- A bound for all ---- */

struct victim {
    struct timespec changed;
    struct dump_name name;
};

struct keeping {
    struct looking looking; /* first */
    const struct dump_name *newest;
    uint64_t files, bytes;
    struct victim *oldest; /* in order */
    unsigned n;
};

static bool is_older(const struct victim *a, const struct victim *b)
{
    if (a->changed.tv_sec != b->changed.tv_sec)
        return a->changed.tv_sec < b->changed.tv_sec;
    if (a->changed.tv_nsec != b->changed.tv_nsec)
        return a->changed.tv_nsec < b->changed.tv_nsec;
    return a->name.number < b->name.number;
}

static void add_victim(struct keeping *k, const struct victim *victim)
{
    unsigned at = k->n;
    while (at > 0 && is_older(victim, &k->oldest[at - 1]))
        at--;
    if (at == MAX_VICTIMS)
        return;
    if (k->n < MAX_VICTIMS)
        k->n++;
    memmove(&k->oldest[at + 1], &k->oldest[at], (k->n - 1 - at) * sizeof *victim);
    k->oldest[at] = *victim;
}

static void found_kept(struct looking *l, const char *text, const struct dump_name *name)
{
    struct keeping *k = (struct keeping *)l;
    struct stat at;
    if (name->is_temporary) {
        remove_if_stale(l->fd, text);
        return;
    }
    if (!look_at(l->fd, text, &at))
        return;
    k->files++;
    k->bytes += (uint64_t)at.st_size;
    if (!dump_name_is_same_dump(name, k->newest))
        add_victim(k, &(struct victim){at.st_mtim, *name});
}

/* One that is gone already was its other half, or another process was quicker. */
static void remove_file(struct keeping *k, const struct dump_name *name)
{
    char text[DUMP_NAME_BYTES];
    struct stat at;
    dump_name_make(text, sizeof text, name);
    if (!look_at(k->looking.fd, text, &at) || unlinkat(k->looking.fd, text, 0) != 0)
        return;
    k->files--;
    k->bytes -= (uint64_t)at.st_size;
}

static void remove_dump(struct keeping *k, struct dump_name name)
{
    for (name.profile = 0; name.profile < EXPORTER_N_PROFILES; name.profile++)
        remove_file(k, &name);
}

/* Returns whether there may be more to remove. */
static bool keep_pass(struct keeping *k, uint64_t max_files, uint64_t max_bytes)
{
    k->files = k->bytes = k->n = 0;
    lseek(k->looking.fd, 0, SEEK_SET);
    look_through(&k->looking);
    unsigned i = 0;
    while (i < k->n && ((max_files && k->files > max_files) || (max_bytes && k->bytes > max_bytes)))
        remove_dump(k, k->oldest[i++].name);
    return i == MAX_VICTIMS;
}

void dump_dir_keep(const char *directory, uint64_t max_files, uint64_t max_bytes, const struct dump_name *newest)
{
    static struct victim oldest[MAX_VICTIMS];
    struct keeping k = {{open_directory(directory), found_kept}, newest, 0, 0, oldest, 0};
    if (k.looking.fd < 0)
        return;
    for (int pass = 0; pass < MAX_PASSES && keep_pass(&k, max_files, max_bytes); pass++)
        ;
    close(k.looking.fd);
}
