/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to another process. base/mailbox.h has the protocol.
 *
 * All goes through one descriptor of /proc/PID/mem. It belongs to the memory that the process had when it was opened, so
 * nothing is ever written into another program or process. The other process may be hostile: no address of it is
 * followed but by that descriptor.
 */
#include "snapshot/mailbox_outside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "snapshot/view_parts.h"

#define SHORTEST_PAUSE_NS 200000
#define LONGEST_PAUSE_NS 20000000

/* ---- Memory of the process ---- */

static int result_of(ssize_t n, size_t bytes)
{
    return n == (ssize_t)bytes ? 0 : n == 0 ? -ESRCH : n > 0 ? -EIO : -errno;
}

static int get(const struct mailbox_outside *m, void *to, uint64_t from, size_t bytes)
{
    return from > INT64_MAX ? -EIO : result_of(pread(m->memory, to, bytes, (off_t)from), bytes);
}

static int put(const struct mailbox_outside *m, uint64_t to, const void *from, size_t bytes)
{
    return to > INT64_MAX ? -EIO : result_of(pwrite(m->memory, from, bytes, (off_t)to), bytes);
}

static int put_word(const struct mailbox_outside *m, uint64_t to, uint32_t word)
{
    return put(m, to, &word, sizeof word);
}

#define AT(member) (m->at + offsetof(struct mailbox, member))

struct words {
    uint32_t asked, taken, answered;
};
_Static_assert(sizeof(struct words) == offsetof(struct mailbox, answered) + sizeof(uint32_t), "they begin the mailbox");

static int get_words(const struct mailbox_outside *m, struct words *words)
{
    return get(m, words, m->at, sizeof *words);
}

/* The program clears the bit whenever it looks, so it is set again at each turn. Its other bits do not change. */
static int ring(const struct mailbox_outside *m)
{
    uint32_t work;
    int error = get(m, &work, m->slow_work_at, sizeof work);
    return error || work & SLOW_MAIL ? error : put_word(m, m->slow_work_at, work | SLOW_MAIL);
}

/* ---- Opening ---- */

static bool pause_until(uint64_t until_ns, uint64_t *pause_ns)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now >= until_ns)
        return false;
    if (*pause_ns > until_ns - now)
        *pause_ns = until_ns - now;
    nanosleep(&(struct timespec){.tv_nsec = (long)*pause_ns}, NULL);
    *pause_ns = *pause_ns < LONGEST_PAUSE_NS / 2 ? 2 * *pause_ns : LONGEST_PAUSE_NS;
    return true;
}

static int open_in_proc(pid_t pid, const char *name, int flags)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = descriptor_open(path, flags, 0);
    return fd >= 0 ? fd : errno == ENOENT ? view_why_no_entry(pid) : errno == EACCES ? -EPERM : -errno;
}

/* The kernel releases the lock when this process ends, however it ends. */
static int lock_directory(int directory, uint64_t until_ns)
{
    uint64_t pause_ns = SHORTEST_PAUSE_NS;
    while (flock(directory, LOCK_EX | LOCK_NB))
        if (errno != EWOULDBLOCK)
            return 0; /* this system has no locks there. The check sum finds what two commands do to each other */
        else if (!pause_until(until_ns, &pause_ns))
            return -EBUSY;
    return 0;
}

/* The books are found by the process's number, and must be the same in the memory that is open. */
static int find(struct mailbox_outside *m, pid_t pid)
{
    struct space space = {.pid = pid};
    struct books found, here;
    uint64_t at = 0;
    int error = view_find_books(&space, &found, &at);
    space_close(&space);
    if (!error)
        error = get(m, &here, at, sizeof here);
    if (!error && memcmp(&here, &found, sizeof here) != 0)
        error = -ESRCH;
    m->at = space_address(found.mailbox);
    m->slow_work_at = space_address(found.slow_work);
    return error;
}

int mailbox_open(struct mailbox_outside *m, pid_t pid, uint64_t until_ns)
{
    *m = (struct mailbox_outside){-1, -1, 0, 0};
    m->directory = open_in_proc(pid, "", O_RDONLY | O_DIRECTORY);
    if (m->directory < 0)
        return m->directory;
    m->memory = open_in_proc(pid, "mem", O_RDWR);
    int error = m->memory < 0 ? m->memory : find(m, pid);
    if (!error)
        error = lock_directory(m->directory, until_ns);
    if (error)
        mailbox_close(m);
    return error;
}

void mailbox_close(struct mailbox_outside *m)
{
    if (m->memory >= 0)
        close(m->memory);
    if (m->directory >= 0)
        close(m->directory);
}

/* ---- Asking ---- */

/* Waits until no request is being executed. A request that a command has left which was killed is withdrawn. */
static int wait_for_rest(const struct mailbox_outside *m, struct words *words, uint64_t until_ns)
{
    uint64_t pause_ns = SHORTEST_PAUSE_NS;
    int error;
    while (!(error = get_words(m, words)) && words->taken != words->answered)
        if (!pause_until(until_ns, &pause_ns))
            return -EBUSY;
    return error || words->asked == words->taken ? error : put_word(m, AT(asked), words->taken);
}

/* Returns -ETIMEDOUT if the request is withdrawn, 0 if a thread has taken it. */
static int withdraw(const struct mailbox_outside *m, uint32_t number, uint32_t before)
{
    const struct mailbox_request none = {0};
    struct words words = {0};
    int error = put_word(m, AT(asked), before);
    if (!error)
        error = put(m, AT(request), &none, sizeof none);
    if (!error)
        error = get_words(m, &words);
    return error ? error : words.taken == number ? 0 : -ETIMEDOUT;
}

#define FINISH_WITHIN_NS UINT64_C(60000000000) /* once it was taken; a purge of many pages takes seconds */

static int wait_for_answer(const struct mailbox_outside *m, uint32_t number, uint32_t before, uint64_t until_ns)
{
    uint64_t pause_ns = SHORTEST_PAUSE_NS;
    struct words words;
    bool taken = false;
    int error;
    while (!(error = get_words(m, &words)) && words.answered != number) {
        if (!taken && words.taken == number) {
            taken = true;
            until_ns = clock_ns(CLOCK_MONOTONIC) + FINISH_WITHIN_NS;
        }
        if (!taken)
            error = ring(m);
        if (error)
            return error;
        if (pause_until(until_ns, &pause_ns))
            continue;
        if (taken)
            return -EBUSY;
        error = withdraw(m, number, before);
        if (error)
            return error;
    }
    return error;
}

int mailbox_ask(struct mailbox_outside *m, struct mailbox_request *request, struct mailbox_answer *answer, uint64_t until_ns)
{
    struct words words;
    int error = wait_for_rest(m, &words, until_ns);
    if (error)
        return error;
    request->number = words.taken + 1;
    if (getrandom(&request->token, sizeof request->token, GRND_NONBLOCK) != sizeof request->token)
        request->token = clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)getpid() << 40;
    request->check = mailbox_check(request);
    error = put(m, AT(request), request, sizeof *request);
    if (!error)
        error = put_word(m, AT(asked), request->number);
    if (!error)
        error = wait_for_answer(m, request->number, words.taken, until_ns);
    if (!error)
        error = get(m, answer, AT(answer), sizeof *answer);
    answer->words[sizeof answer->words - 1] = '\0';
    return error ? error : answer->token == request->token ? 0 : -EAGAIN;
}
