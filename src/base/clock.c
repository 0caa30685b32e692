/* SPDX-License-Identifier: BSD-2-Clause */
/* Ticks: decides whether the processor's counter can be used, and measures how long a tick is. */
#include "base/clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/descriptor.h"

#define SHORTEST_NS 200000u   /* measure at least this long: the two clocks are read some tens of ns apart */
#define LONGEST_NS 1000000000u /* from then on the rate stays, so that the same ticks never become fewer ns */

bool clock_is_raw;

struct instant {
    uint64_t ticks, ns;
};

static struct instant start;
static _Atomic uint64_t scale = (uint64_t)1 << 32; /* ns per tick, times 2^32 */
static _Atomic uint64_t measured_ns;               /* length of that measurement */

#if defined(__x86_64__)
static bool processor_has_counter(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & 1u << 8; /* invariant TSC: Intel SDM vol. 3, 18.17.1 */
}
#elif defined(__aarch64__)
static bool processor_has_counter(void)
{
    return true; /* architectural */
}
#else
static bool processor_has_counter(void)
{
    return false;
}
#endif

/* The kernel watches the counter. When it cannot rely on the counter, it uses a slow timer of the board instead. A
 * kernel that does not say what it uses, as in a sandbox, counts as one that trusts the processor. */
static bool kernel_trusts_counter(void)
{
    static const char *const timers[] = {"hpet", "acpi_pm", "jiffies", "pit"};
    char name[32] = "";
    int fd = descriptor_open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY, 0);
    if (fd < 0)
        return true;
    ssize_t n = read(fd, name, sizeof name - 1);
    close(fd);
    for (size_t i = 0; n > 0 && i < sizeof timers / sizeof timers[0]; i++)
        if (!strncmp(name, timers[i], strlen(timers[i])))
            return false;
    return true;
}

/* Reads both clocks at nearly the same moment: the best of a few tries. */
static struct instant read_both(void)
{
    struct instant best = {0};
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        uint64_t before = clock_ticks(), ns = clock_ns(CLOCK_MONOTONIC), width = clock_ticks() - before;
        if (width < narrowest) {
            narrowest = width;
            best = (struct instant){before + width / 2, ns};
        }
    }
    return best;
}

COLD void clock_boot(void)
{
    clock_is_raw = processor_has_counter() && kernel_trusts_counter();
    start = read_both();
}

/* Several threads may do this at once. Any of their results is good. */
static COLD void measure(void)
{
    struct instant now;
    do
        now = read_both();
    while (now.ns - start.ns < SHORTEST_NS);
    if (now.ticks <= start.ticks)
        return;
    store_relaxed(&scale, (uint64_t)(((unsigned __int128)(now.ns - start.ns) << 32) / (now.ticks - start.ticks)));
    store_relaxed(&measured_ns, now.ns - start.ns);
}

/* Measures again when four times as much time has passed. */
uint64_t clock_scale(void)
{
    uint64_t over = load_relaxed(&measured_ns);
    if (clock_is_raw && over < LONGEST_NS && (!over || clock_ns(CLOCK_MONOTONIC) - start.ns >= 4 * over))
        measure();
    return load_relaxed(&scale);
}
