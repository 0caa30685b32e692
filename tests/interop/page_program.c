/* SPDX-License-Identifier: BSD-2-Clause */
/* For page.sh: spans whose memory grows, with names that a page must show as they are, for 20 minutes at most. */
#include <stdlib.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

static void *held[4], *volatile last;

static void grow(unsigned n)
{
    JESPAN("growing", "tenant", "\"><script>alert(2)</script>");
    held[0] = realloc(held[0], (14 << 20) + n * 1000);
}

static void request(unsigned n)
{
    JESPAN("request", "route", "/a/b?c=d");
    free(malloc(1000));
    grow(n);
}

/* Its limit is 1 MiB. */
static void exceed(void)
{
    JESPAN("bounded");
    free(last = malloc(2 << 20));
}

static void hold(void)
{
    {
        JESPAN("<img src=x onerror=alert(1)>");
        held[1] = malloc(3 << 20);
    }
    JESPAN("größe 漢字");
    do { /* its peak; a look for peaks may be left out while other processes have the processor */
        free(malloc(4 << 20));
        ctl_refresh();
    } while (ctl_span(jespan_current(), "peak_bytes") < 4 << 20 && usleep(10000) == 0);
    held[2] = malloc(896 << 10); /* 1008 KiB in all */
    held[3] = malloc(112 << 10);
}

int main(void)
{
    hold();
    for (unsigned n = 0; n < 24000; n++) {
        request(n);
        exceed();
        usleep(50000);
    }
    return 0;
}
