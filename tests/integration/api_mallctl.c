/* SPDX-License-Identifier: BSD-2-Clause */
/* For api.sh, in C and C++: includes <jespan/mallctl.h> alone, before jemalloc's header, or after it. The library's
 * version is the header's. */
#ifdef JEMALLOC_BEFORE
#include <jemalloc/jemalloc.h>
#endif
#include <jespan/mallctl.h>
#ifdef JEMALLOC_AFTER
#include <jemalloc/jemalloc.h>
#endif

#include <jespan/jespan.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char expected[64];
    const char *version = "none", *by_mib = "none";
    size_t size = sizeof version, mib[8], length = 8;
    snprintf(expected, sizeof expected, "%d.%d.%d", JESPAN_VERSION_MAJOR, JESPAN_VERSION_MINOR, JESPAN_VERSION_PATCH);
    int error = mallctl("spans.version", &version, &size, NULL, 0);
    if (!error)
        error = mallctlnametomib("spans.version", mib, &length);
    if (!error)
        error = mallctlbymib(mib, length, &by_mib, &size, NULL, 0);
    printf("%s: %s, %s (%s)\n", expected, version, by_mib, strerror(error));
    return error || strcmp(version, expected) || strcmp(by_mib, expected);
}
