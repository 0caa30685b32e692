/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory pressure is read, and how the kernel's sums are used. tests/stress/pressure.sh tests it with a real
 * kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../support/made_root.h"
#include "base/memory_bounds.h"

#define S ((uint64_t)1000000000)
static struct pressure pressure;
static struct bounds bounds;

static int set_up(void **state)
{
    (void)state;
    pressure_close(&pressure);
    pressure = (struct pressure){.root = made_root};
    bounds = (struct bounds){.root = made_root};
    return made_root_clear();
}

static void find(void)
{
    bounds_find(&bounds);
    pressure_find(&pressure, bounds.cgroup2);
}

static void put_stalled(const char *path, uint64_t us)
{
    char text[200];
    snprintf(text, sizeof text, "some avg10=1.00 avg60=0.00 avg300=0.00 total=99999999\n"
             "full avg10=0.00 avg60=0.00 avg300=0.00 total=%llu\n", (unsigned long long)us);
    put(path, text);
}

static void test_share_of_the_time(void **state)
{
    (void)state;
    put_stalled("/proc/pressure/memory", 7000000);
    find();
    assert_false(pressure.of_cgroup);
    assert_int_equal(pressure_read(&pressure, 50 * S), 0); /* the first reading has no earlier one to compare with */
    put_stalled("/proc/pressure/memory", 7500000);
    assert_int_equal(pressure_read(&pressure, 52 * S), 25);
    find();
    assert_int_equal(pressure_read(&pressure, 54 * S), 0);
    put_stalled("/proc/pressure/memory", 8000000);
    assert_int_equal(pressure_read(&pressure, 104 * S), 1);
    put_stalled("/proc/pressure/memory", 8002000);
    assert_int_equal(pressure_read(&pressure, 104 * S + 1000000), 100); /* the two clocks may differ a little */
    assert_int_equal(pressure_read(&pressure, 104 * S + 1000000), 0);
    put_stalled("/proc/pressure/memory", 3);
    assert_int_equal(pressure_read(&pressure, 105 * S), 0);
}

static void test_the_cgroup_if_there_is_one(void **state)
{
    (void)state;
    put_stalled("/proc/pressure/memory", 5);
    put("/proc/thread-self/cgroup", "1:memory:/x\n0::/a\n");
    put("/proc/thread-self/mountinfo", CGROUP2_MOUNT("/"));
    find(); /* without PSI */
    assert_false(pressure.of_cgroup);
    assert_int_equal(pressure_read(&pressure, 1 * S), 0);
    put_stalled("/sys/fs/cgroup/a/memory.pressure", 1000000);
    find(); /* the root of all cgroups */
    assert_false(pressure.of_cgroup);
    put("/sys/fs/cgroup/a/cgroup.type", "domain\n");
    find();
    assert_true(pressure.of_cgroup);
    assert_int_equal(pressure_read(&pressure, 2 * S), 0); /* the sum of another cgroup is not compared */
    put_stalled("/sys/fs/cgroup/a/memory.pressure", 2000000);
    assert_int_equal(pressure_read(&pressure, 4 * S), 50);
    put_stalled("/sys/fs/cgroup/b/memory.pressure", 9000000);
    put("/sys/fs/cgroup/b/cgroup.type", "domain\n");
    put("/proc/thread-self/cgroup", "0::/b\n");
    find();
    assert_int_equal(pressure_read(&pressure, 6 * S), 0);
}

/* A kernel without PSI gives no text or an error. Other texts may be nonsense. */
static void test_nonsense(void **state)
{
    static const char *const texts[] = {"", "\n", "full", "full total", "full total=", "some total=1\n", "full total=-1\n", "full total=x"};
    (void)state;
    find();
    assert_int_equal(pressure_read(&pressure, 1 * S), 0);
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_stalled("/proc/pressure/memory", 1);
        find();
        assert_int_equal(pressure_read(&pressure, (i * 10 + 1) * S), 0);
        put("/proc/pressure/memory", texts[i]);
        assert_int_equal(pressure_read(&pressure, (i * 10 + 2) * S), 0);
        put_stalled("/proc/pressure/memory", 2000000);
        assert_int_equal(pressure_read(&pressure, (i * 10 + 3) * S), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_share_of_the_time, set_up),
        cmocka_unit_test_setup(test_the_cgroup_if_there_is_one, set_up),
        cmocka_unit_test_setup(test_nonsense, set_up),
    };
    return cmocka_run_group_tests(tests, made_root_make, made_root_remove);
}
