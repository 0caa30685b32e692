/* SPDX-License-Identifier: BSD-2-Clause */
/* The program of README.md: it answers requests, and keeps a copy of some pages. */
#include <jespan/jespan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *cache[1000];

static char *render(int number)
{
    JESPAN("render");
    char *page = malloc(2000);
    return snprintf(page, 2000, "page %1990d", number), page;
}

static void answer(const char *route, int number)
{
    JESPAN("request", "route", route);          /* the span ends with the block */
    char *page = render(number);                /* "request > render" owns it */
    if (!strcmp(route, "/look") && !cache[number % 1000]) {
        JESPAN("cache");
        cache[number % 1000] = strdup(page);    /* "request > cache" owns it */
    }
    free(page);                                 /* a free needs no span */
}

int main(void)
{
    for (int i = 0; i < 10000; i++)
        answer(i % 4 ? "/look" : "/buy", i);
}
