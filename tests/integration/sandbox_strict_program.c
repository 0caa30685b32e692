/* SPDX-License-Identifier: BSD-2-Clause */
/* sandbox_strict_program [NAME]: a seccomp filter kills the process for each system call that neither it nor jemalloc needs. With an
 * argument the main thread is renamed before that. The name "stacks" also allows rt_sigprocmask(2), and calls zlib. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#define OBJECTS 4096

static const int allowed[] = {SYS_write, SYS_mmap, SYS_munmap, SYS_madvise, SYS_mprotect, SYS_futex, SYS_exit_group, SYS_rt_sigprocmask};
#define N_ALLOWED (sizeof allowed / sizeof *allowed)

static int filter_calls(bool with_stacks)
{
    struct sock_filter filter[2 * N_ALLOWED + 2];
    const size_t n_allowed = N_ALLOWED - !with_stacks;
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < n_allowed; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {n, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *volatile objects[OBJECTS];

static void work(int rounds)
{
    unsigned random = 1;
    for (int i = 0; i < rounds; i++) {
        random = random * 1103515245 + 12345;
        unsigned place = random >> 16 & (OBJECTS - 1);
        free(objects[place]);
        objects[place] = malloc(random >> 20 & 4095);
    }
}

static voidpf allocate(voidpf unused, uInt items, uInt size)
{
    (void)unused;
    return calloc(items, size);
}

static void release(voidpf unused, voidpf p)
{
    (void)unused;
    free(p);
}

/* Stacks go through a library that none went through before. */
static __attribute__((noinline)) void compress_nothing(void)
{
    z_stream stream = {.zalloc = allocate, .zfree = release};
    if (deflateInit(&stream, 6) != Z_OK || deflateEnd(&stream) != Z_OK)
        exit(1);
}

int main(int argc, char **argv)
{
    const bool with_stacks = argc > 1 && !strcmp(argv[1], "stacks");
    if (with_stacks)
        dlopen("libresolv.so.2", RTLD_NOW); /* jespan looks at all libraries again */
    if (argc > 1) {
        work(1000);
        pthread_setname_np(pthread_self(), argv[1]);
        work(10000); /* jespan looks at the new name */
    }
    if (filter_calls(with_stacks)) {
        perror("sandbox_strict_program");
        return 125;
    }
    if (with_stacks)
        compress_nothing();
    work(1000000);
    exit(7); /* with what runs at exit */
}
