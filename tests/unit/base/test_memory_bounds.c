/* SPDX-License-Identifier: BSD-2-Clause */
/* The bound on memory, in made-up file systems: cgroups of both versions, nested, moved and broken; and the
 * machine's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../../support/made_root.h"
#include "base/memory_bounds.h"

#define MB ((uint64_t)1 << 20)
static struct bounds bounds;

static int set_up(void **state)
{
    (void)state;
    bounds = (struct bounds){.root = made_root};
    return made_root_clear();
}

/* Returns the number of bounds, without the resource limits that the test's own process may have. */
static unsigned found(void)
{
    unsigned n = 0;
    bounds_find(&bounds);
    while (n < bounds.n && bounds.bound[n].kind != BOUND_ADDRESSES && bounds.bound[n].kind != BOUND_DATA)
        n++;
    return n;
}

static void test_version_2(void **state)
{
    (void)state;
    put("/proc/thread-self/cgroup", "0::/user.slice/a.service\n");
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    put("/sys/fs/cgroup/user.slice/a.service/memory.max", "268435456\n");
    put("/sys/fs/cgroup/user.slice/a.service/memory.high", "max\n");
    put("/sys/fs/cgroup/user.slice/a.service/memory.current", "134217728\n");
    put("/sys/fs/cgroup/user.slice/a.service/memory.stat", "anon 5\ninactive_anon 7\ninactive_file 33554432\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/memory.high", "1073741824\n");
    put("/sys/fs/cgroup/user.slice/memory.current", "200000000");
    assert_int_equal(found(), 2);
    assert_int_equal(bounds.bound[0].bytes, 256 * MB);
    assert_int_equal(bounds.bound[1].bytes, 1024 * MB);
    assert_true(bounds_read(&bounds, &bounds.bound[0], 0));
    assert_int_equal(bounds.bound[0].used, 96 * MB);
    assert_true(bounds_read(&bounds, &bounds.bound[0], 129 * MB)); /* used is less than this */
    assert_int_equal(bounds.bound[0].used, 128 * MB);
    assert_true(bounds_read(&bounds, &bounds.bound[1], 0)); /* there is no memory.stat */
    assert_int_equal(bounds.bound[1].used, 200000000);
    assert_false(bounds_find(&bounds));
    put("/sys/fs/cgroup/user.slice/a.service/memory.high", "1000000\n");
    assert_true(bounds_find(&bounds));
    assert_int_equal(bounds.bound[0].bytes, 1000000);
}

static void test_version_1(void **state)
{
    (void)state;
    put("/proc/thread-self/cgroup", "9:name=systemd:/x\n4:hugetlb,memory:/a/b\n1:cpu:/c\n0::/\n");
    put("/proc/thread-self/mountinfo", CGROUP1_MOUNT("/"));
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "73400320\n");
    put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].kind, BOUND_CGROUP1);
    assert_int_equal(bounds.bound[0].bytes, 100 * MB);
    assert_true(bounds_read(&bounds, &bounds.bound[0], 0));
    assert_int_equal(bounds.bound[0].used, 60 * MB);
}

/* In a container the path starts at the host's root, or at the container's. */
static void test_container(void **state)
{
    (void)state;
    put("/proc/thread-self/cgroup", "4:memory:/docker/0123/inner\n");
    put("/proc/thread-self/mountinfo", CGROUP1_MOUNT("/docker/0123"));
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1048576\n");
    assert_int_equal(found(), 2);
    assert_int_equal(bounds.bound[0].bytes, MB);
    assert_int_equal(bounds.bound[1].bytes, 2 * MB);
    put("/proc/thread-self/cgroup", "4:memory:/docker/01234/other\n"); /* this path is not below the mounted one */
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].bytes, 2 * MB);
    put("/proc/thread-self/cgroup", "0::/../../elsewhere\n");
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    put("/sys/fs/cgroup/memory.max", "3145728\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].bytes, 3 * MB);
}

static void test_blanks_in_paths(void **state)
{
    (void)state;
    put("/proc/thread-self/cgroup", "0::/my group\n");
    put("/proc/thread-self/mountinfo", "1 2 0:3 / /mnt/c\\040g rw - cgroup2 none rw\n");
    put("/mnt/c g/my group/memory.max", "4096\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].bytes, 4096);
}

/* The options of a container's first mount have all of its layers. A machine may have thousands of mounts. */
static void test_many_mounts(void **state)
{
    static char mounts[200000];
    char *at = mounts;
    (void)state;
    at += sprintf(at, "20 1 0:20 / / rw - overlay overlay rw,lowerdir=");
    for (int i = 0; i < 500; i++)
        at += sprintf(at, "/var/lib/docker/overlay2/l/%026d:", i);
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "\n%d 20 0:%d / /run/containers/%032d rw,nosuid - tmpfs tmpfs rw", i + 21, i + 30, i);
    strcpy(at, "\n" CGROUP2_MOUNT("/"));
    put("/proc/thread-self/cgroup", "0::/\n");
    put("/proc/thread-self/mountinfo", mounts);
    put("/sys/fs/cgroup/memory.max", "4096\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].bytes, 4096);
}

/* Without a bound of a cgroup, the machine's memory is the bound. */
static void test_machine(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:       24683500 kB\nMemFree:  1 kB\nMemAvailable:   24683000 kB\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].kind, BOUND_MACHINE);
    assert_true(bounds_read(&bounds, &bounds.bound[0], 0));
    assert_int_equal(bounds.bound[0].used, 500 * 1024);
    put("/proc/thread-self/cgroup", "0::/a\n");
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    assert_int_equal(found(), 1);
    put("/sys/fs/cgroup/a/memory.max", "1000000\n");
    assert_int_equal(found(), 1);
    assert_int_equal(bounds.bound[0].kind, BOUND_CGROUP2);
}

/* A file that is absent, cut off or nonsense gives no bound, and does not crash. */
static void test_nonsense(void **state)
{
    char longer[3000] = "0::/";
    static const char *const cgroups[] = {"", "\n", "0", "0::", ":", "4:memory", "4:memory:", "::::\n0:::\n"};
    static const char *const mounts[] = {"", "\n", " - cgroup2 ", "1 2 - cgroup2 x rw\n", "1 2 3 / - cgroup x\n",
                                         "1 2 3 / /m rw - cgroup x rw,memory2\n"};
    (void)state;
    assert_int_equal(found(), 0);
    memset(longer + 4, 'x', sizeof longer - 5);
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    put("/proc/thread-self/cgroup", longer);
    assert_int_equal(found(), 0);
    for (unsigned i = 0; i < sizeof cgroups / sizeof *cgroups; i++)
        for (unsigned k = 0; k < sizeof mounts / sizeof *mounts; k++) {
            put("/proc/thread-self/cgroup", cgroups[i]);
            put("/proc/thread-self/mountinfo", mounts[k]);
            assert_int_equal(found(), 0);
        }
    put("/proc/thread-self/cgroup", "0::/a\n");
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    put("/sys/fs/cgroup/a/memory.max", "nonsense\n");
    put("/sys/fs/cgroup/memory.max", "");
    assert_int_equal(found(), 0);
}

static void test_resource_limits(void **state)
{
    struct rlimit before, limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur != RLIM_INFINITY)
        skip();
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 45; /* sanitizers reserve many addresses */
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    bounds.root = "";
    unsigned i = found();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(i < bounds.n);
    assert_int_equal(bounds.bound[i].kind, BOUND_ADDRESSES);
    assert_true(bounds_read(&bounds, &bounds.bound[i], 0));
    assert_true(bounds.bound[i].used > MB && bounds.bound[i].used < (uint64_t)1 << 47);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_version_2, set_up),       cmocka_unit_test_setup(test_version_1, set_up),
        cmocka_unit_test_setup(test_container, set_up),       cmocka_unit_test_setup(test_blanks_in_paths, set_up),
        cmocka_unit_test_setup(test_machine, set_up),         cmocka_unit_test_setup(test_nonsense, set_up),
        cmocka_unit_test_setup(test_resource_limits, set_up), cmocka_unit_test_setup(test_many_mounts, set_up),
    };
    return cmocka_run_group_tests(tests, made_root_make, made_root_remove);
}
