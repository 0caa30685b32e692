/* SPDX-License-Identifier: BSD-2-Clause */
/* sandbox_strict_program [SECOND]: a seccomp filter kills the process for each system call that neither it nor jemalloc needs. With
 * an argument the main thread is renamed before that. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OBJECTS 4096

static const int allowed[] = {SYS_write, SYS_mmap, SYS_munmap, SYS_madvise, SYS_mprotect, SYS_futex, SYS_exit_group};
#define N_ALLOWED (sizeof allowed / sizeof *allowed)

static int filter_calls(void)
{
    struct sock_filter filter[2 * N_ALLOWED + 2];
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N_ALLOWED; i++) {
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

int main(int argc, char **argv)
{
    if (argc > 1) {
        work(1000);
        pthread_setname_np(pthread_self(), argv[1]);
        work(10000); /* jespan looks at the new name */
    }
    if (filter_calls()) {
        perror("sandbox_strict_program");
        return 125;
    }
    work(1000000);
    exit(7); /* with what runs at exit */
}
