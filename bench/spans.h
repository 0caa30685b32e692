/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API as found in the running process, so that one program runs with and without jespan. */
#ifndef BENCH_SPANS_H
#define BENCH_SPANS_H

#include <stdbool.h>

/* Looks the API up. With `inside`, opens the span that spans_enter_if_wanted() enters. Ends the program when it is needed
 * and not there. To be called once, before any thread is started. */
void spans_find(bool needed, bool inside);

/* Enters the span on the calling thread for good, if the run is to be inside one. */
void spans_enter_if_wanted(void);

#endif
