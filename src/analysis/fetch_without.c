/* SPDX-License-Identifier: BSD-2-Clause */
/* A build without libcurl asks no program's page. */
#include "report.h"

#include <string.h>

bool fetch_is_url(const char *word)
{
    return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0 || strncmp(word, "unix:", 5) == 0;
}

const char *fetch(int fd, const char *url, const char *path, unsigned seconds)
{
    (void)fd, (void)url, (void)path, (void)seconds;
    return "this build of jespan has no libcurl: it was configured with --disable-pyroscope";
}

bool fetch_met_nobody(void)
{
    return false;
}
