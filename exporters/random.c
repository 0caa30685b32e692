/* SPDX-License-Identifier: BSD-2-Clause */
/* Random bytes from the kernel. Before the kernel has any, bytes that differ between processes. */
#include "random.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

/* One step of SplitMix64 (Steele, Lea, Flood, 2014). */
static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void random_fill(void *to, size_t bytes)
{
    if (getrandom(to, bytes, GRND_NONBLOCK) == (ssize_t)bytes)
        return;
    uint64_t state = clock_ns(CLOCK_REALTIME) ^ clock_ns(CLOCK_MONOTONIC) << 20 ^ (uint64_t)getpid() << 44;
    for (size_t done = 0; done < bytes; done += sizeof state) {
        uint64_t bits = mix(&state);
        memcpy((char *)to + done, &bits, bytes - done < sizeof bits ? bytes - done : sizeof bits);
    }
}
