/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl PID waiting` and `withdraw`: requests that were left in a program. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "ctl_target.h"

static int explain_entry(const struct ctl_target *t, int error)
{
    cmd_error("%s: %s", t->word, error == -ESRCH ? "the process has ended" : strerror(-error));
    return STATUS_USAGE;
}

static void print_entry(const struct mailbox_entry *entry)
{
    const struct mailbox_request *request = &entry->request;
    ctl_print_words(request->name);
    if (request->verb == MAILBOX_SET) {
        putchar(' ');
        ctl_print_words(request->words);
    }
    if (entry->state == MAILBOX_WAITS)
        puts(": waits");
    else if (entry->state == MAILBOX_RUNS)
        puts(": is being done");
    else if (!entry->answer.error && entry->answer.token == request->token)
        puts(": done");
    else
        printf(": %s\n", entry->answer.token == request->token && ctl_reason(request, entry->answer.error)
                             ? ctl_reason(request, entry->answer.error)
                             : "failed");
}

static int compare_numbers(const void *a, const void *b)
{
    int32_t difference = (int32_t)(((const struct mailbox_entry *)a)->number - ((const struct mailbox_entry *)b)->number);
    return (difference > 0) - (difference < 0);
}

int ctl_waiting(struct ctl_target *t, char **words, int n)
{
    struct mailbox_entry entries[MAILBOX_SLOTS];
    (void)words;
    (void)n;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        int error = mailbox_read(&t->box, i, &entries[i]);
        if (error)
            return explain_entry(t, error);
    }
    qsort(entries, MAILBOX_SLOTS, sizeof *entries, compare_numbers);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        if (entries[i].state != MAILBOX_EMPTY)
            print_entry(&entries[i]);
    return 0;
}

static int withdraw(struct ctl_target *t, unsigned slot, const char *name, bool *found)
{
    struct mailbox_entry entry;
    int error = mailbox_read(&t->box, slot, &entry);
    if (error)
        return explain_entry(t, error);
    if (entry.state != MAILBOX_WAITS || (name && strcmp(name, entry.request.name) != 0))
        return 0;
    *found = true;
    error = mailbox_take_back(&t->box, slot);
    if (error != -EBUSY)
        return error ? explain_entry(t, error) : 0;
    cmd_error("%s: %s: too late: a thread of the program does it now", t->word, entry.request.name);
    return STATUS_REFUSED;
}

int ctl_withdraw(struct ctl_target *t, char **words, int n)
{
    bool found = false;
    int status = 0;
    for (unsigned i = 0; i < MAILBOX_SLOTS && !status; i++)
        status = withdraw(t, i, n ? words[0] : NULL, &found);
    if (status || found || !n)
        return status;
    cmd_error("%s: %s: no such request waits", t->word, words[0]);
    return STATUS_REFUSED;
}
