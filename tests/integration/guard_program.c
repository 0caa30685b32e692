/* SPDX-License-Identifier: BSD-2-Clause */
/* For guard.sh: makes the mistake that the argument names, with an object of a span, and prints the object's address
 * before. */
#define _GNU_SOURCE
#include <jespan/jespan.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define PAGE 4096 /* an object of a page touches both guard pages, wherever it lies in its slot */

static volatile char seen;

NOINLINE static char *allocate(size_t bytes)
{
    JESPAN("request", "route", "/look");
    JESPAN("cache");
    char *p = malloc(bytes);
    dprintf(STDOUT_FILENO, "%lx\n", (unsigned long)p);
    return p;
}

NOINLINE static void release(void *p)
{
    free(p);
    seen++;
}

NOINLINE static void write_to(char *p)
{
    *(volatile char *)p = 1;
    seen++;
}

NOINLINE static void read_from(const char *p)
{
    seen += *(const volatile char *)p;
}

static void use_after_free_write(void)
{
    char *p = allocate(24);
    release(p);
    write_to(p + 4);
}

static void use_after_free_read(void)
{
    char *p = allocate(5000);
    release(p);
    read_from(p + 4998);
}

static void overflow(void)
{
    write_to(allocate(PAGE) + PAGE);
}

static void overflow_read(void)
{
    read_from(allocate(PAGE) + PAGE + 100);
}

static void underflow(void)
{
    write_to(allocate(PAGE) - 1);
}

static void overflow_seen_late(void)
{
    char *p = allocate(25);
    write_to(p + 25);
    release(p);
}

static void double_free(void)
{
    char *p = allocate(100);
    release(p);
    release(p);
}

static void free_inside(void)
{
    release(allocate(100) + 16);
}

static void realloc_after_free(void)
{
    char *p = allocate(100);
    release(p);
    seen = realloc(p, 200) != NULL;
}

/* ---- Traces ---- */

extern __thread const void *volatile otel_thread_ctx_v1; /* as another library of the program would set it */

static void underflow_in_trace(void)
{
    static const struct {
        unsigned char trace_id[16], span_id[8], is_valid, flags, bytes[2];
    } record = {{0x4b, 0xf9, [15] = 0x36}, {0xa0, [7] = 0xb7}, 1, 0, {0, 0}};
    otel_thread_ctx_v1 = &record;
    underflow();
}

static void underflow_wrong_trace(void)
{
    otel_thread_ctx_v1 = (void *)8;
    underflow();
}

static void double_free_in_trace(void)
{
    static const struct jespan_traceparent trace = {"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1};
    jespan_publish_trace(&trace);
    double_free();
}

/* ---- Handlers of the program ---- */

static sigjmp_buf back;

static void return_by_jump(int number)
{
    siglongjmp(back, number);
}

/* It recovers from the fault, as if jespan were not there. */
static void recovers(void)
{
    signal(SIGSEGV, return_by_jump);
    overflow_read(); /* the first object that is guarded after that takes SIGSEGV over */
}

static void recovering(void)
{
    if (sigsetjmp(back, 1) == 0)
        recovers();
    dprintf(STDOUT_FILENO, "recovered\n");
    _exit(7);
}

/* A fault elsewhere is the program's own business. */
static void other_fault(void)
{
    allocate(10);
    write_to((char *)8);
}

static void sent_signal(void)
{
    allocate(10);
    kill(getpid(), SIGSEGV);
}

/* The old handler is jespan's. To install that again restores what was there before. */
static void handlers_restored(void)
{
    struct sigaction own = {.sa_handler = return_by_jump}, old;
    allocate(10);
    sigaction(SIGSEGV, &own, &old);
    allocate(10);
    sigaction(SIGSEGV, &old, NULL);
    write_to((char *)8);
}

static void forked(void)
{
    char *p = allocate(24);
    if (fork() == 0) {
        release(p);
        write_to(p + 4);
        _exit(0);
    }
    int status;
    wait(&status);
    write_to(p + 4); /* the parent's object is in use */
    release(p);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*make)(void);
    } mistakes[] = {{"use_after_free_write", use_after_free_write}, {"use_after_free_read", use_after_free_read},
                    {"overflow", overflow}, {"overflow_read", overflow_read}, {"underflow", underflow},
                    {"underflow_in_trace", underflow_in_trace}, {"underflow_wrong_trace", underflow_wrong_trace},
                    {"double_free_in_trace", double_free_in_trace},
                    {"overflow_seen_late", overflow_seen_late}, {"double_free", double_free}, {"free_inside", free_inside},
                    {"realloc_after_free", realloc_after_free}, {"recovers", recovering}, {"other_fault", other_fault},
                    {"sent_signal", sent_signal}, {"handlers_restored", handlers_restored}, {"forked", forked}};
    for (size_t i = 0; argc > 1 && i < sizeof mistakes / sizeof *mistakes; i++)
        if (strcmp(argv[1], mistakes[i].name) == 0)
            mistakes[i].make();
    return 0;
}
