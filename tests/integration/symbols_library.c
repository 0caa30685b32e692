/* SPDX-License-Identifier: BSD-2-Clause */
/* A library that tests/integration/symbols_program.cc loads. */
void call_back(void (*call)(void));

static inline __attribute__((always_inline)) void call_twice(void (*call)(void))
{
    call();
    call();
}

void call_back(void (*call)(void))
{
    call_twice(call);
    __asm__ volatile("");
}
