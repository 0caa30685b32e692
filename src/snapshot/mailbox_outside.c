/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to another process. base/mailbox.h has the protocol.
 *
 * All accesses go through one descriptor of /proc/PID/mem. It belongs to the memory that the process had when it was
 * opened, so nothing is ever written into another program or process. The other process may be hostile: no address of
 * it is followed but by that descriptor.
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
#include "base/process_stat.h"
#include "heap/classes.h"
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

/* A copy of struct mailbox_words. */
struct words {
    uint32_t asked, taken, answered, left;
};
_Static_assert(sizeof(struct words) == sizeof(struct mailbox_words), "they are the same");

static uint64_t words_at(const struct mailbox_outside *m, unsigned slot)
{
    return AT(words) + slot * sizeof(struct words);
}

static int put_asked(const struct mailbox_outside *m, unsigned slot, uint32_t number)
{
    return put_word(m, words_at(m, slot) + offsetof(struct words, asked), number);
}

static int get_words(const struct mailbox_outside *m, unsigned slot, struct words *words)
{
    return get(m, words, words_at(m, slot), sizeof *words);
}

static int get_all_words(const struct mailbox_outside *m, struct words words[MAILBOX_SLOTS])
{
    return get(m, words, AT(words), MAILBOX_SLOTS * sizeof *words);
}

static int get_request(const struct mailbox_outside *m, unsigned slot, struct mailbox_request *request)
{
    int error = get(m, request, AT(request) + slot * sizeof *request, sizeof *request);
    request->name[sizeof request->name - 1] = request->words[sizeof request->words - 1] = '\0';
    return error;
}

static int get_answer(const struct mailbox_outside *m, unsigned slot, struct mailbox_answer *answer)
{
    int error = get(m, answer, AT(answer) + slot * sizeof *answer, sizeof *answer);
    answer->words[sizeof answer->words - 1] = '\0';
    return error;
}

/* ---- Ringing ---- */

/* Copies of struct class_row. */
struct rows {
    struct {
        uint8_t shift, class;
        uint16_t bytes;
    } row[CLASS_ROWS];
};
_Static_assert(sizeof(struct rows) == CLASS_ROWS * sizeof(struct class_row), "they are the same");

/* Hides the size classes, so that the next allocation of each thread looks. Only classes change: the other bytes are
 * written as they were read. Before the program has started jespan, the table is empty, and stays so: a thread that
 * begins looks anyway. */
static int hide_classes(const struct mailbox_outside *m)
{
    struct class_info last;
    struct rows rows;
    bool shown = false;
    int error = get(m, &last, m->classes_at + (CLASS_ROWS - 1) * sizeof last, sizeof last);
    if (error || last.code != CODE_BIG)
        return error;
    error = get(m, &rows, m->classes_at, sizeof rows);
    for (size_t i = 0; i < CLASS_ROWS && !error; i++) {
        shown |= rows.row[i].class;
        rows.row[i].class = 0;
    }
    return shown && !error ? put(m, m->classes_at, &rows, sizeof rows) : error;
}

/* The program clears the bit and shows the classes whenever it looks, so both are set again at each turn. The other bits
 * do not change. The bit comes first: mailbox_look_for_hidden(). */
static int ring(const struct mailbox_outside *m)
{
    uint32_t work;
    int error = get(m, &work, m->slow_work_at, sizeof work);
    if (!error && !(work & SLOW_MAIL))
        error = put_word(m, m->slow_work_at, work | SLOW_MAIL);
    return error ? error : hide_classes(m);
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

static int open_in_proc(pid_t pid, const char *path, int flags)
{
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
    m->classes_at = space_address(found.size_to_class);
    return error;
}

int mailbox_open(struct mailbox_outside *m, pid_t pid, uint64_t until_ns)
{
    char path[PROCESS_PATH_BYTES];
    *m = (struct mailbox_outside){-1, -1, 0, 0, 0};
    snprintf(path, sizeof path, "/proc/%d", (int)pid); /* the same for all who lock it */
    m->directory = open_in_proc(pid, path, O_RDONLY | O_DIRECTORY);
    if (m->directory < 0)
        return m->directory;
    m->memory = open_in_proc(pid, process_path(path, pid, "mem"), O_RDWR);
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

/* ---- Slots ---- */

int mailbox_read(const struct mailbox_outside *m, unsigned slot, struct mailbox_entry *entry)
{
    struct words words;
    *entry = (struct mailbox_entry){.state = MAILBOX_EMPTY};
    int error = get_words(m, slot, &words);
    if (!error)
        error = get_request(m, slot, &entry->request);
    if (!error)
        error = get_answer(m, slot, &entry->answer);
    if (error)
        return error;
    entry->number = words.asked;
    if (words.taken != words.answered)
        entry->state = MAILBOX_RUNS;
    else if (words.asked != words.taken)
        entry->state = MAILBOX_WAITS;
    else if (words.asked && words.left == words.asked)
        entry->state = MAILBOX_DONE;
    return 0;
}

int mailbox_take_back(const struct mailbox_outside *m, unsigned slot)
{
    const struct mailbox_request none = {0};
    struct words words, now = {0};
    int error = get_words(m, slot, &words);
    if (!error)
        error = words.asked == words.taken ? -EBUSY : put_asked(m, slot, words.taken);
    if (!error)
        error = put(m, AT(request) + slot * sizeof none, &none, sizeof none);
    if (!error)
        error = get_words(m, slot, &now);
    return error ? error : now.taken == words.taken ? 0 : -EBUSY;
}

/* Whether a waiting request is taken back for a new one. A request that reads is: one command has the mailbox at a
 * time, so the command that asked was killed and does not wait. */
static bool is_replaced(const struct mailbox_request *old, const struct mailbox_request *by)
{
    return old->verb == MAILBOX_GET || (old->verb == by->verb && !strcmp(old->name, by->name));
}

static int take_replaced_back(const struct mailbox_outside *m, const struct mailbox_request *by)
{
    int error = 0;
    for (unsigned i = 0; i < MAILBOX_SLOTS && !error; i++) {
        struct mailbox_entry entry;
        error = mailbox_read(m, i, &entry);
        if (!error && entry.state == MAILBOX_WAITS && is_replaced(&entry.request, by))
            error = mailbox_take_back(m, i);
        if (error == -EBUSY)
            error = 0; /* taken just now: this request comes after it */
    }
    return error;
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0 ? a : b;
}

/* Finds a slot, and the number that comes after all others. Answers that nobody has read yet are kept as long as
 * possible. */
static int find_slot(const struct mailbox_outside *m, unsigned *slot, uint32_t *number)
{
    struct words all[MAILBOX_SLOTS];
    int error = get_all_words(m, all);
    unsigned found = MAILBOX_SLOTS;
    *number = all[0].asked;
    for (unsigned i = 0; i < MAILBOX_SLOTS && !error; i++) {
        const struct words *w = &all[i], *best = found < MAILBOX_SLOTS ? &all[found] : NULL;
        *number = later(*number, later(w->asked, w->taken));
        if (w->asked != w->taken || w->taken != w->answered)
            continue;
        bool is_kept = w->left == w->asked, best_is_kept = best && best->left == best->asked;
        if (!best || (best_is_kept && !is_kept) || (best_is_kept == is_kept && (int32_t)(w->asked - best->asked) < 0))
            found = i;
    }
    *slot = found;
    ++*number;
    return error ? error : found < MAILBOX_SLOTS ? 0 : -ENOSPC;
}

/* ---- Asking ---- */

static int leave(struct mailbox_outside *m, unsigned slot, uint32_t number)
{
    int error = put_word(m, words_at(m, slot) + offsetof(struct words, left), number);
    if (!error)
        error = ring(m);
    return error ? error : -EINPROGRESS;
}

static bool is_at_another(const struct mailbox_outside *m)
{
    struct words all[MAILBOX_SLOTS];
    if (get_all_words(m, all))
        return false;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        if (all[i].taken != all[i].answered)
            return true;
    return false;
}

/* Returns 0 if a thread has taken the request just now. */
static int give_up(struct mailbox_outside *m, unsigned slot, uint32_t number, enum mailbox_late late)
{
    if (late == MAILBOX_LEAVE)
        return leave(m, slot, number);
    int error = mailbox_take_back(m, slot);
    return error == -EBUSY ? 0 : error ? error : is_at_another(m) ? -EBUSY : -ETIMEDOUT;
}

#define FINISH_WITHIN_NS UINT64_C(60000000000) /* once it was taken; a purge of many pages takes seconds */

static int wait_for_answer(struct mailbox_outside *m, unsigned slot, uint32_t number, uint64_t until_ns, enum mailbox_late late)
{
    uint64_t pause_ns = SHORTEST_PAUSE_NS;
    struct words words;
    bool taken = false;
    int error;
    while (!(error = get_words(m, slot, &words)) && words.answered != number) {
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
        error = give_up(m, slot, number, late);
        if (error)
            return error;
    }
    return error;
}

/* `left` is changed before, so that an old value does not fit a number by chance. */
static int post(const struct mailbox_outside *m, unsigned slot, struct mailbox_request *request)
{
    if (getrandom(&request->token, sizeof request->token, GRND_NONBLOCK) != sizeof request->token)
        request->token = clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)getpid() << 40;
    request->check = mailbox_check(request);
    int error = put_word(m, words_at(m, slot) + offsetof(struct words, left), ~request->number);
    if (!error)
        error = put(m, AT(request) + slot * sizeof *request, request, sizeof *request);
    return error ? error : put_asked(m, slot, request->number);
}

int mailbox_ask(struct mailbox_outside *m, struct mailbox_request *request, struct mailbox_answer *answer, uint64_t until_ns,
                enum mailbox_late late)
{
    unsigned slot = 0;
    int error = take_replaced_back(m, request);
    if (!error)
        error = find_slot(m, &slot, &request->number);
    if (!error)
        error = post(m, slot, request);
    if (!error)
        error = wait_for_answer(m, slot, request->number, until_ns, late);
    if (!error)
        error = get_answer(m, slot, answer);
    return error ? error : answer->token == request->token ? 0 : -EAGAIN;
}
