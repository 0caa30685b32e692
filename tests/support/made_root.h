/* SPDX-License-Identifier: BSD-2-Clause */
/* For unit tests, after cmocka.h: a root directory with made-up /proc and cgroup file systems. */
#ifndef JESPAN_TESTS_MADE_ROOT_H
#define JESPAN_TESTS_MADE_ROOT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char made_root[] = "/tmp/jespan-test-root.XXXXXX";

/* `path` from the made-up root, with the directories above it. */
static inline void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", made_root, path);
    for (char *p = whole + sizeof made_root; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(whole, 0700);
        *p = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static inline int made_root_clear(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s/*", made_root);
    return system(command);
}

static inline int made_root_make(void **state)
{
    (void)state;
    return mkdtemp(made_root) ? 0 : -1;
}

static inline int made_root_remove(void **state)
{
    (void)state;
    return made_root_clear() || rmdir(made_root);
}

#define CGROUP1_MOUNT(top) "31 23 0:28 / /sys rw - sysfs sysfs rw\n" \
    "35 31 0:32 " top " /sys/fs/cgroup/memory rw,relatime shared:3 master:1 - cgroup cgroup rw,memory\n"
#define CGROUP2_MOUNT(top) "41 31 0:38 " top " /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"

#endif
