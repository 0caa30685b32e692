/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl PID waiting` and `withdraw`: requests that were left in a program. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/command.h"
#include "console/text.h"
#include "ctl_target.h"

static int explain_entry(const struct ctl_target *t, int error)
{
    return cmd_fail(t->word, error == -ESRCH ? "the process has ended" : strerror(-error), STATUS_USAGE);
}

static const char *result_of(const struct mailbox_entry *entry)
{
    const struct mailbox_request *request = &entry->request;
    bool is_answered = entry->answer.token == request->token;
    if (entry->state == MAILBOX_WAITS)
        return "waits";
    if (entry->state == MAILBOX_RUNS)
        return "is being done";
    if (is_answered && !entry->answer.error)
        return "done";
    return is_answered && ctl_reason(request, entry->answer.error) ? ctl_reason(request, entry->answer.error) : "failed";
}

static void print_entry(const struct mailbox_entry *entry)
{
    ctl_print_words(entry->request.name);
    if (entry->request.verb == MAILBOX_SET) {
        putchar(' ');
        ctl_print_words(entry->request.words);
    }
    printf(": %s\n", result_of(entry));
}

static void print_json(const struct mailbox_entry *entry, bool follows)
{
    fputs(follows ? ",\n  {\"name\": " : "[\n  {\"name\": ", stdout);
    text_print_json(entry->request.name);
    if (entry->request.verb == MAILBOX_SET) {
        fputs(", \"value\": ", stdout);
        text_print_json(entry->request.words);
    }
    fputs(", \"result\": ", stdout);
    text_print_json(result_of(entry));
    putchar('}');
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
    int status = ctl_reach(t);
    if (status)
        return status;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        int error = mailbox_read(&t->box, i, &entries[i]);
        if (error)
            return explain_entry(t, error);
    }
    qsort(entries, MAILBOX_SLOTS, sizeof *entries, compare_numbers);
    bool any = false;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        if (entries[i].state == MAILBOX_EMPTY)
            continue;
        if (t->json)
            print_json(&entries[i], any);
        else
            print_entry(&entries[i]);
        any = true;
    }
    if (t->json)
        puts(any ? "\n]" : "[]");
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
    int status = ctl_reach(t);
    for (unsigned i = 0; i < MAILBOX_SLOTS && !status; i++)
        status = withdraw(t, i, n ? words[0] : NULL, &found);
    if (status || found || !n)
        return status;
    cmd_error("%s: %s: no such request waits", t->word, words[0]);
    return STATUS_REFUSED;
}
