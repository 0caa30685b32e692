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
#define LONGEST_NS CLOCK_LONGEST_NS

bool clock_is_raw;

struct instant {
    uint64_t ticks, ns;
};

struct clock_state clock_state = {.scale = (uint64_t)1 << 32};

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
    struct instant start = read_both();
    clock_state.is_raw = clock_is_raw;
    clock_state.start_ticks = start.ticks;
    clock_state.start_ns = start.ns;
}

/* Several threads may do this at once. Any of their results is good. */
static COLD void measure(void)
{
    struct instant now;
    do
        now = read_both();
    while (now.ns - clock_state.start_ns < SHORTEST_NS);
    if (now.ticks <= clock_state.start_ticks)
        return;
    store_relaxed(&clock_state.scale, (uint64_t)(((unsigned __int128)(now.ns - clock_state.start_ns) << 32) /
                                                  (now.ticks - clock_state.start_ticks)));
    store_relaxed(&clock_state.measured_ns, now.ns - clock_state.start_ns);
}

/* Measures again when four times as much time has passed. */
uint64_t clock_scale(void)
{
    uint64_t over = load_relaxed(&clock_state.measured_ns);
    if (clock_is_raw && over < LONGEST_NS && (!over || clock_ns(CLOCK_MONOTONIC) - clock_state.start_ns >= 4 * over))
        measure();
    return load_relaxed(&clock_state.scale);
}
