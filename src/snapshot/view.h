/* SPDX-License-Identifier: BSD-2-Clause */
/* A view: the books of a process, read from outside. The books are all that jespan keeps of a program: counters,
 * contexts, labels, sites, threads.
 *
 * The process is not asked, stopped, signalled or locked. It may run, hang in malloc, be stopped, or be about to end.
 * While its threads are quiet, a snapshot is equal to one that the process takes of itself, to the byte. Otherwise no
 * figure of memory is negative. Whatever the process has in its memory, damaged or hostile, a view returns an error or
 * a snapshot, and never crashes. Functions of one view are for one thread at a time.
 */
#ifndef JESPAN_VIEW_H
#define JESPAN_VIEW_H

#include <sys/types.h>

#include "snapshot/snapshot.h"

struct view;

/* Opens the books of a process; `pid` is its number in the caller's namespace. The caller needs the same user or root,
 * and the permission of ptrace(2). It may be the caller's own process: that is read through /proc/PID/mem, since a sandbox may
 * kill a program for process_vm_readv(2). Returns 0 or a negative errno:
 *   ESRCH            there is no such process
 *   EPERM            the system does not permit it: another user, Yama, no system call for it
 *   ENOENT           the process has no jespan in it
 *   EAGAIN           it has, but has not allocated yet
 *   EPROTONOSUPPORT  its jespan has books of another layout
 *   EBADMSG          its books are damaged
 *   ENOSYS           /proc has no entry for it: it is not mounted, or that of another PID namespace
 *   ENOMEM */
int view_open(struct view **view, pid_t pid);

/* Opens the books of a process in its core file, or in its state file, which is one. Returns 0 or a negative errno: those
 * of core_file_open(), ENOENT, EAGAIN, EPROTONOSUPPORT, EBADMSG and ENOMEM as above, and
 *   EREMOTE          a core of a process whose books were in its state file
 *   ENOSPC           a state file that had no room for most figures */
int view_open_core(struct view **view, const char *path);

/* It is a state file (base/state_file.h) that had no room for some of the figures. */
bool view_is_incomplete(const struct view *view);

/* The number that the process had. */
pid_t view_pid(const struct view *view);

/* Takes a snapshot, to be freed with snapshot_free() before view_close(). It frees `old` (or NULL), whose memory it
 * uses if possible. When it returns NULL, errno is one of the above, and `old` is still there, to be freed or to be passed
 * again; its contents may be lost. ESRCH: the process has ended. ENOENT: it has executed another program, perhaps with
 * jespan: the view is to be opened again. */
struct snapshot *view_snapshot(struct view *view, struct snapshot *old);

/* Gives the new events of the process to the sink: event_reader.h. Returns 0 or one of the errors above, negative. */
struct event_reader;
struct event_sink;
int view_read_events(struct view *view, struct event_reader *r, struct event_sink *sink);

/* Accepts NULL. */
void view_close(struct view *view);

/* An error of the functions above in words: "there is no jespan in the process". For a negative errno or a positive
 * one. */
const char *view_error_text(int error);

#endif
