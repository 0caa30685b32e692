/* SPDX-License-Identifier: BSD-2-Clause */
/* sandbox PROGRAM [ARGUMENT…]: runs it as systemd does with SystemCallFilter=@system-service, which kills for each call
 * that is not in that set. The table has the others that x86-64's C library has numbers for, as of systemd 252
 * (`systemd-analyze syscall-filter`). */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int others[] = {
    SYS_mincore, SYS_ptrace, SYS_syslog, SYS_ustat, SYS_sysfs, SYS_vhangup, SYS_modify_ldt, SYS_pivot_root, SYS_adjtimex,
    SYS_chroot, SYS_acct, SYS_settimeofday, SYS_mount, SYS_umount2, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_sethostname,
    SYS_setdomainname, SYS_iopl, SYS_ioperm, SYS_init_module, SYS_delete_module, SYS_quotactl, SYS_lookup_dcookie,
    SYS_clock_settime, SYS_kexec_load, SYS_perf_event_open, SYS_fanotify_init, SYS_fanotify_mark, SYS_open_by_handle_at,
    SYS_clock_adjtime, SYS_finit_module, SYS_seccomp, SYS_kexec_file_load, SYS_bpf, SYS_pkey_mprotect, SYS_pkey_alloc,
    SYS_pkey_free, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_pidfd_getfd,
    SYS_mount_setattr, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self, SYS_process_mrelease,
};

#define N_OTHERS (sizeof others / sizeof *others)

static int filter_calls(void)
{
    struct sock_filter filter[2 * N_OTHERS + 2];
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N_OTHERS; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)others[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    if (argc < 2 || filter_calls()) {
        perror("sandbox");
        return 125;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
