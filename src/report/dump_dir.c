/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of numbered dumps, and their directory. */
#include "report/dump_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define NS_PER_S 1000000000u
#define STAMP_DIGITS 8
#define STALE_S 600     /* a temporary file is stale if nobody wrote to it for so long */
#define MAX_OLDEST 256  /* files that one pass can remove */
#define MAX_PASSES 64

/* ---- Names ---- */

const char *const dump_profile_names[EXPORTER_N_PROFILES] = {[EXPORTER_HEAP] = "heap", [EXPORTER_TIME] = "time"};

#define SUFFIX(name, suffix) suffix,
static const char *suffixes[] = {EXPORTER_TABLE(SUFFIX) NULL, NULL}; /* room for one more, and the end */
#define N_TABLE (sizeof suffixes / sizeof suffixes[0] - 2)

void dump_name_know_suffix(const char *suffix)
{
    size_t i = 0;
    while (i < N_TABLE && strcmp(suffixes[i], suffix))
        i++;
    suffixes[i] = suffix;
}

const char *const *dump_name_suffixes(void)
{
    return suffixes;
}

int dump_name_make(char *text, size_t bytes, const struct dump_name *name)
{
    char life[24] = "";
    bool has_reason = name->reason < DUMP_N_REASONS;
    if (name->life)
        snprintf(life, sizeof life, ".%llu", (unsigned long long)name->life);
    return snprintf(text, bytes, "%s.%llu%s.%llu%s%s%s", dump_profile_names[name->profile],
                    (unsigned long long)name->pid, life, (unsigned long long)name->number, has_reason ? "." : "",
                    has_reason ? dump_reason_names[name->reason] : "", name->suffix);
}

bool dump_name_is_same_dump(const struct dump_name *a, const struct dump_name *b)
{
    return a->pid == b->pid && a->life == b->life && a->number == b->number && a->reason == b->reason &&
           strcmp(a->suffix, b->suffix) == 0;
}

/* The functions named take_ remove something from the front of the text. */

static bool take(const char **text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*text, word, n) != 0)
        return false;
    *text += n;
    return true;
}

/* A dot and a number, as dump_name_make() writes them. */
static bool take_number(const char **text, uint64_t *number)
{
    const char *p = *text;
    if (p[0] != '.' || p[1] < '1' || p[1] > '9')
        return false;
    *number = 0;
    for (p++; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*number, 10u, number) || __builtin_add_overflow(*number, (unsigned)(*p - '0'), number))
            return false;
    *text = p;
    return true;
}

static bool take_profile(const char **text, enum exporter_profile *profile)
{
    for (*profile = 0; *profile < EXPORTER_N_PROFILES; ++*profile)
        if (take(text, dump_profile_names[*profile]))
            return true;
    return false;
}

static enum dump_reason take_reason(const char **text)
{
    enum dump_reason reason = 0;
    const char *p = *text;
    if (!take(&p, "."))
        return DUMP_N_REASONS;
    while (reason < DUMP_N_REASONS && !take(&p, dump_reason_names[reason]))
        reason++;
    if (reason < DUMP_N_REASONS)
        *text = p;
    return reason;
}

static bool is_temporary_rest(const char *text)
{
    uint64_t pid;
    if (!take_number(&text, &pid) || !take(&text, "."))
        return false;
    for (int i = 0; i < STAMP_DIGITS; i++)
        if (!isxdigit((unsigned char)*text++))
            return false;
    return strcmp(text, ".tmp") == 0;
}

/* The suffix, and what follows it in the name of a temporary file. */
static bool take_suffix(const char *text, struct dump_name *name)
{
    for (const char *const *suffix = suffixes; *suffix; suffix++) {
        const char *rest = text;
        name->suffix = *suffix;
        if (!take(&rest, *suffix) || (*rest && !is_temporary_rest(rest)))
            continue;
        name->is_temporary = *rest != '\0';
        return true;
    }
    return false;
}

bool dump_name_parse(struct dump_name *name, const char *text)
{
    *name = (struct dump_name){0};
    if (!take_profile(&text, &name->profile) || !take_number(&text, &name->pid) || !take_number(&text, &name->life))
        return false;
    if (!take_number(&text, &name->number)) {
        name->number = name->life;
        name->life = 0;
    }
    name->reason = take_reason(&text);
    return take_suffix(text, name);
}

/* ---- Looking through a directory ---- */

struct looking {
    int fd; /* the directory */
    void (*found)(struct looking *l, const char *text, const struct dump_name *name);
};

/* readdir(3) would allocate. A dump before the OOM killer must not. */
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

/* Whether it is a regular file of this process's user. */
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

/* ---- The life of a new process ---- */

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
    if (lives.looking.fd < 0) /* a directory that cannot be read may contain anything */
        return errno == EACCES ? now_ms : 0;
    look_through(&lives.looking);
    close(lives.looking.fd);
    return !lives.any ? 0 : now_ms > lives.last ? now_ms : lives.last + 1;
}

/* ---- A limit for the dumps of all processes ---- */

struct old_file {
    struct timespec changed;
    struct dump_name name;
};

struct keeping {
    struct looking looking; /* first */
    const struct dump_name *newest;
    uint64_t files, bytes;
    struct old_file *oldest; /* the oldest first */
    unsigned n;
};

static bool is_older(const struct old_file *a, const struct old_file *b)
{
    if (a->changed.tv_sec != b->changed.tv_sec)
        return a->changed.tv_sec < b->changed.tv_sec;
    if (a->changed.tv_nsec != b->changed.tv_nsec)
        return a->changed.tv_nsec < b->changed.tv_nsec;
    return a->name.number < b->name.number;
}

static void add_oldest(struct keeping *k, const struct old_file *file)
{
    unsigned at = k->n;
    while (at > 0 && is_older(file, &k->oldest[at - 1]))
        at--;
    if (at == MAX_OLDEST)
        return;
    if (k->n < MAX_OLDEST)
        k->n++;
    memmove(&k->oldest[at + 1], &k->oldest[at], (k->n - 1 - at) * sizeof *file);
    k->oldest[at] = *file;
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
        add_oldest(k, &(struct old_file){at.st_mtim, *name});
}

/* The file may be gone: another process may have removed it. */
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

/* Returns whether another pass is needed. */
static bool keep_pass(struct keeping *k, uint64_t max_files, uint64_t max_bytes)
{
    k->files = k->bytes = k->n = 0;
    lseek(k->looking.fd, 0, SEEK_SET);
    look_through(&k->looking);
    unsigned i = 0;
    while (i < k->n && ((max_files && k->files > max_files) || (max_bytes && k->bytes > max_bytes)))
        remove_dump(k, k->oldest[i++].name);
    return i == MAX_OLDEST;
}

void dump_dir_keep(const char *directory, uint64_t max_files, uint64_t max_bytes, const struct dump_name *newest)
{
    static struct old_file oldest[MAX_OLDEST];
    struct keeping k = {{open_directory(directory), found_kept}, newest, 0, 0, oldest, 0};
    if (k.looking.fd < 0)
        return;
    for (int pass = 0; pass < MAX_PASSES && keep_pass(&k, max_files, max_bytes); pass++)
        ;
    close(k.looking.fd);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void dump_dir_remove_empty(const char *directory, uint64_t pid)
{
    char end[32];
    const char *name = last_part(directory);
    int n = snprintf(end, sizeof end, ".%llu", (unsigned long long)pid);
    size_t bytes = strlen(name);
    if (strncmp(name, "jespan.", 7) == 0 && bytes > (size_t)n + 7 && strcmp(name + bytes - (size_t)n, end) == 0)
        rmdir(directory);
}

static bool was_there; /* the directory of this process's configuration */

void dump_dir_note(const char *directory)
{
    struct stat at;
    was_there = was_there || (stat(directory, &at) == 0 && S_ISDIR(at.st_mode));
}

bool dump_dir_make_again(const char *directory)
{
    return was_there && mkdir(directory, 0777) == 0;
}

/* A link in a directory such as /tmp may be another user's, who chose where it leads. */
int dump_dir_make(const char *directory)
{
    const char *name = last_part(directory), *dot = strrchr(name, '.');
    struct stat at;
    if (strncmp(name, "jespan.", 7) != 0 || dot == name + 6 || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")])
        return 0;
    if (mkdir(directory, 0777) == 0 || errno != EEXIST)
        return 0; /* if it is missing, the dump fails and says why */
    return lstat(directory, &at) == 0 && !S_ISDIR(at.st_mode) ? -ENOTDIR : 0;
}
