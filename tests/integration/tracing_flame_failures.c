/* SPDX-License-Identifier: BSD-2-Clause */
/* What tracing-flame 0.2.0 gets wrong and applies to jespan, a case for each failure, named after it. Write errors that it
 * ignores are in dump.sh and host.c; that entering and leaving takes no lock is checked by tools/check-hot-path. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "../support/cases.h"
#include "../support/spans.h"

static size_t dump_bytes(void)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *name = path;
    struct stat file;
    close(mkstemp(path));
    CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), 0);
    CHECK_EQ(stat(path, &file), 0);
    unlink(path);
    return (size_t)file.st_size;
}

/* 170 MB for 2,000,000 spans. What we write grows with the contexts, whatever went on in them. */
static void a_line_per_event(void)
{
    size_t few = 0;
    if (!case_has_exporter())
        return;
    for (uint64_t i = 0, n = check_env("EVENTS", 2000000); i < n; i++) {
        JESPAN("request");
        JESPAN("parse");
        F(free)(opaque_pointer(F(malloc)(i % 1000)));
        if (i == 1000)
            few = dump_bytes();
    }
    size_t many = dump_bytes();
    if (few == 0 || many > few + 200)
        check_fail("a dump grew from %zu to %zu bytes", few, many);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_line_per_event", a_line_per_event, NULL, NULL},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
