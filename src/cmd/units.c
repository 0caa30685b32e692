/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures as text. */
#include "units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

void units_bytes(char *to, int64_t bytes, bool exact)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    if (exact || (bytes > -1024 && bytes < 1024)) {
        snprintf(to, UNITS_BYTES, exact ? "%" PRId64 : "%" PRId64 " B", bytes);
        return;
    }
    for (value /= 1024; (value >= 1023.95 || value <= -1023.95) && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(to, UNITS_BYTES, "%.1f %s", value, units[unit]);
}

/* What is shown as 1000.0 of a unit, or 60.0, is 1.0 of the next. */
void units_time(char *to, int64_t ns, bool exact)
{
    static const struct {
        const char *name;
        double next; /* so many are one of the next */
    } units[] = {{"µs", 1000}, {"ms", 1000}, {"s", 60}, {"min", 60}, {"h", 1e18}};
    double value = (double)ns / 1000;
    size_t unit = 0;
    if (exact || (ns > -1000 && ns < 1000)) {
        snprintf(to, UNITS_BYTES, exact ? "%" PRId64 : "%" PRId64 " ns", ns);
        return;
    }
    for (; value >= units[unit].next - 0.05 || value <= 0.05 - units[unit].next; unit++)
        value /= units[unit].next;
    snprintf(to, UNITS_BYTES, "%.1f %s", value, units[unit].name);
}

int units_columns(const char *figure)
{
    int columns = 0;
    for (; *figure != '\0'; figure++)
        columns += ((unsigned char)*figure & 0xc0) != 0x80; /* the µ has two bytes */
    return columns;
}

void units_share(char *to, int64_t part, int64_t whole)
{
    snprintf(to, UNITS_BYTES, "%.1f%%", whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole);
}

void units_duration(char *to, int64_t ns)
{
    int64_t s = ns < 0 ? 0 : ns / 1000000000;
    if (s < 60)
        snprintf(to, UNITS_BYTES, "%.1f s", ns < 0 ? 0.0 : (double)ns / 1e9);
    else if (s < 3600)
        snprintf(to, UNITS_BYTES, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else
        snprintf(to, UNITS_BYTES, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
}
