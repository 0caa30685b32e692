/* SPDX-License-Identifier: BSD-2-Clause */
/* Pressure stall information. We read it and do not wait with poll(2): triggers need a privilege, or a kernel of
 * 2023. */
#include "base/memory_pressure.h"

#include <string.h>

/* The root cgroup has no cgroup.type; the machine's figures are the same there. */
static bool has_pressure(const struct pressure *p, const char *cgroup2)
{
    return *cgroup2 && file_text(p->root, cgroup2, "memory.pressure") && file_text(p->root, cgroup2, "cgroup.type");
}

void pressure_find(struct pressure *p, const char *cgroup2)
{
    p->of_cgroup = has_pressure(p, cgroup2);
    const char *directory = p->of_cgroup ? cgroup2 : "/proc/pressure";
    if (strcmp(directory, p->directory) != 0)
        pressure_close(p);
    strcpy(p->directory, directory);
}

/* Lines are "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" and the same with "full". total is in microseconds. */
static bool read_stalled(struct pressure *p, uint64_t *us)
{
    const char *text = procfile_text(&p->file, p->root, p->directory, p->of_cgroup ? "memory.pressure" : "memory");
    const char *full = text ? strstr(text, "full ") : NULL, *total = full ? strstr(full, " total=") : NULL;
    *us = total ? text_number(total + strlen(" total=")) : UINT64_MAX;
    return *us != UINT64_MAX;
}

unsigned pressure_read(struct pressure *p, uint64_t now_ns)
{
    uint64_t us, before_us = p->stalled_us, ms = (now_ns - p->at_ns) / 1000000;
    bool was_known = p->known;
    p->known = read_stalled(p, &us);
    p->stalled_us = us;
    p->at_ns = now_ns;
    if (!was_known || !p->known || us < before_us || !ms)
        return 0;
    uint64_t percent = (us - before_us) / 10 / ms;
    return percent < 100 ? (unsigned)percent : 100;
}

void pressure_close(struct pressure *p)
{
    procfile_close(&p->file);
    p->known = false;
}
