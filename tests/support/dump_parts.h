/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of dumps: an exporter of the test, and a directory of its own for each program. The exporter looks at the directory while it
 * writes, and fails when told to. */
#ifndef JESPAN_TESTS_DUMP_PARTS_H
#define JESPAN_TESTS_DUMP_PARTS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"
#include "jespan/jespan.h"
#include "report/dump.h"
#include "report/module.h"
#include "span/tree.h"

#define TEXT "0123456789"
static char directory[] = "/tmp/jespan-test-dump.XXXXXX", path[200], temporary[500], seen_old[64];
static int encode_error;
static bool has_module, mode_is_private, temporary_was_there;
static jespan_context_t encoded_in;
static uint32_t encoded_rows;
static uint64_t encoded_epoch[EXPORTER_N_PROFILES]; /* the snapshot that each profile was last made of */
static enum exporter_profile failing_profile;       /* the profile that encode_error is for */

/* The contents of a file; "absent" when there is none. */
static inline const char *contents(const char *of)
{
    static char text[64];
    int fd = open(of, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    if (n < 0)
        return "absent";
    text[n] = '\0';
    return text;
}

/* Finds the file that is being written. Its name goes to `temporary`. */
static inline bool find_temporary(struct stat *status)
{
    char beginning[40];
    bool found = false;
    DIR *all = opendir(directory);
    snprintf(beginning, sizeof beginning, "heap.%d.", (int)getpid());
    for (struct dirent *entry; (entry = readdir(all));) {
        size_t n = strlen(entry->d_name);
        if (n > 4 && strcmp(entry->d_name + n - 4, ".tmp") == 0 && !found) {
            snprintf(temporary, sizeof temporary, "%s/%s", directory, entry->d_name);
            found = strncmp(entry->d_name, beginning, strlen(beginning)) == 0 && stat(temporary, status) == 0;
        }
    }
    closedir(all);
    return found;
}

static inline int encode(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    struct stat status;
    encoded_rows = snapshot->n_rows;
    encoded_epoch[profile] = snapshot->epoch;
    for (int i = 0; i < 10; i++)
        if (sink->write(sink, &TEXT[i], 1))
            return -EIO;
    temporary_was_there = find_temporary(&status);
    mode_is_private = temporary_was_there && (status.st_mode & 0777) == 0600;
    strcpy(seen_old, contents(path));
    encoded_in = jespan_current();
    errno = EDOM;
    return profile == failing_profile ? encode_error : 0;
}

static int (*encode_now)(const struct snapshot *, enum exporter_profile, struct exporter_sink *);

static inline int encode_so(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    return encode_now(snapshot, profile, sink);
}

/* Replaces the function that opens shared objects. */
const struct exporter *module_find(const char *name)
{
    static const struct exporter exporters[] = {{EXPORTER_ABI, "pprof", ".pb.gz", encode_so},
                                                {EXPORTER_ABI, "another", ".another.gz", encode_so}};
    for (size_t i = 0; i < sizeof exporters / sizeof exporters[0]; i++)
        if (has_module && strcmp(name, exporters[i].name) == 0)
            return &exporters[i];
    return NULL;
}

static inline int files(void)
{
    int n = 0;
    DIR *all = opendir(directory);
    for (struct dirent *entry; (entry = readdir(all));)
        n += entry->d_name[0] != '.';
    closedir(all);
    return n;
}

static inline void write_file(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static inline int boot(void **state)
{
    (void)state;
    (void)jespan_current();
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/heap", directory);
    return 0;
}

static inline int set_up(void **state)
{
    (void)state;
    encode_error = 0;
    encode_now = encode;
    failing_profile = EXPORTER_HEAP;
    conf.dump_dir_files = conf.dump_dir_bytes = 0;
    conf.dump_time = false;
    conf.dump_keep = 0;
    has_module = true;
    strcpy(conf.dump_dir, directory);
    strcpy(conf.dump_format, "pprof");
    dump_after_fork(); /* numbers and counts start again */
    return 0;
}

static inline int clean_up(void **state)
{
    (void)state;
    DIR *all = opendir(directory);
    for (struct dirent *entry; (entry = readdir(all));)
        unlinkat(dirfd(all), entry->d_name, 0);
    closedir(all);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    return rmdir(directory);
}

/* The path of a file in the directory; %P is this process's number. */
static inline const char *in_directory(const char *name)
{
    static char text[300];
    const char *pid = strstr(name, "%P");
    if (pid)
        snprintf(text, sizeof text, "%s/%.*s%d%s", directory, (int)(pid - name), name, (int)getpid(), pid + 2);
    else
        snprintf(text, sizeof text, "%s/%s", directory, name);
    return text;
}

/* The contents of a dump of this process. */
static inline const char *numbered_of(const char *profile, int n)
{
    static char text[240];
    snprintf(text, sizeof text, "%s/%s.%d.%d.pb.gz", directory, profile, (int)getpid(), n);
    return contents(text);
}

static inline const char *numbered(int n)
{
    return numbered_of("heap", n);
}

#define DUMP_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

#endif
