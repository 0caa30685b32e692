/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks for test programs. A failed check prints place and figures, and main() returns non-zero.
 *
 * Nothing here allocates, since the tests examine the heap that they run on.
 */
#ifndef JESPAN_TESTS_CHECK_H
#define JESPAN_TESTS_CHECK_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_LIMIT 20

static unsigned check_failures;

static inline void check_say(const char *format, va_list args)
{
    char line[1024];
    int n = vsnprintf(line, sizeof line - 1, format, args);
    if (n < 0)
        return;
    size_t length = (size_t)n < sizeof line - 2 ? (size_t)n : sizeof line - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        _exit(3);
}

__attribute__((format(printf, 1, 2))) static inline void check_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    check_say(format, args);
    va_end(args);
}

/* Counts a failure. Ends the program after CHECK_LIMIT of them: what follows is rarely worth reading. */
__attribute__((format(printf, 1, 2))) static inline void check_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    check_say(format, args);
    va_end(args);
    if (__atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED) >= CHECK_LIMIT)
        _exit(1);
}

/* errno is part of what is tested, so checking leaves it alone where it passes. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_fail("%s:%d: failed: %s", __FILE__, __LINE__, #condition);                                           \
    } while (0)

#define CHECK_EQ(actual, expected)                                                                                     \
    do {                                                                                                               \
        uint64_t check_a = (uint64_t)(actual), check_e = (uint64_t)(expected);                                         \
        if (check_a != check_e)                                                                                        \
            check_fail("%s:%d: failed: %s is %llu, not %llu (%s)", __FILE__, __LINE__, #actual,                        \
                       (unsigned long long)check_a, (unsigned long long)check_e, #expected);                           \
    } while (0)

/* Waits for a child process, which must end with 0. */
#define CHECK_CHILD(pid)                                                                                               \
    do {                                                                                                               \
        int check_status = -1;                                                                                         \
        CHECK_EQ(waitpid((pid), &check_status, 0), (pid));                                                             \
        CHECK_EQ(check_status, 0);                                                                                     \
    } while (0)

static inline int check_result(void)
{
    unsigned failures = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
    if (failures)
        check_note("%u checks failed", failures);
    return failures ? 1 : 0;
}

/* A number from the environment, for sizes and repetitions of a test. */
static inline uint64_t check_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* The number of rounds of a long test: the variable of that name in the environment, else TEST_PERCENT (100) of `full`.
 */
static inline uint64_t check_rounds(const char *name, uint64_t full)
{
    uint64_t part = full * check_env("TEST_PERCENT", 100) / 100;
    return check_env(name, part ? part : 1);
}

#endif
