/* SPDX-License-Identifier: BSD-2-Clause */
/* membarrier(2) is refused, from the start or later. Entering costs the same at any depth, and contexts are recycled
 * only if that is safe. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define DEPTH 400000     /* 80,000,000,000 steps, if each entry looked at all below it */
#define CPU_SECONDS 40   /* far more than the test takes otherwise, and far less than those steps */
#define CONTEXTS 64

JESPAN_SITE(deep_site, "deep");

static void refuse_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Spans in each other, and out of them again in the same order. */
static int deep(void)
{
    struct rlimit limit = {CPU_SECONDS, CPU_SECONDS};
    CHECK_EQ(setrlimit(RLIMIT_CPU, &limit), 0);
    jespan_span_t *span = jespan_open(&deep_site, JESPAN_CURRENT, NULL, 0);
    uint64_t before = ctl_u64("spans.all.inuse_bytes");
    for (int i = 0; i < DEPTH; i++)
        CHECK_EQ(jespan_enter(span), 0);
    void *p = malloc(opaque(1000));
    CHECK(ctl_u64("spans.all.inuse_bytes") > before);
    free(opaque_pointer(p));
    for (int i = 0; i < DEPTH; i++)
        CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    return check_result();
}

static void use_contexts(int first)
{
    for (int i = first; i < first + 4 * CONTEXTS; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        JESPAN("many", "value", value);
        free(opaque_pointer(malloc(opaque(100))));
    }
}

/* This process had it when it began. */
static int refused_later(void)
{
    use_contexts(0);
    uint64_t recycled = ctl_u64("spans.stats.recycled");
    CHECK(recycled > 0);
    refuse_membarrier();
    use_contexts(1000);
    CHECK_EQ(ctl_u64("spans.stats.recycled"), recycled);
    ctl_check_identity("without membarrier");
    return check_result();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return !strcmp(argv[1], "deep") ? deep() : refused_later();
    setenv("JESPAN_CONF", "max_contexts:64", 1);
    static const char *const names[] = {"later", "deep"};
    for (int i = 0; i < 2; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            if (i == 1)
                refuse_membarrier();
            execl("/proc/self/exe", argv[0], names[i], NULL);
            _exit(99);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        if (status)
            check_fail("%s: status %#x", names[i], status);
    }
    return check_result();
}
