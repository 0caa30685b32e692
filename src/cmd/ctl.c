/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl`: reads a running process from outside, and asks it to call mallctl. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/process_stat.h"
#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "ctl_target.h"
#include "run/run.h"
#include "snapshot/names_outside.h"
#include "snapshot/names_permitted.h"
#include "snapshot/view.h"

#define DEFAULT_READ_WAIT_S 5
#define DEFAULT_WAIT_S 1 /* then a request that changes something is left in the program */
#define OTHERS_WAIT_S 30 /* each of them may wait for the program */
#define TRIES 5 /* after another process has overwritten the request */
#define PURGE_ALL "arena.4096.purge" /* 4096: MALLCTL_ARENAS_ALL */

/* ---- One request ---- */

static int explain_open(const struct ctl_target *t, int error)
{
    if (error == -EBUSY)
        cmd_error("%s: another 'jespan ctl' is changing this process; try again", t->word);
    else
        cmd_error("%s: %s", t->word, view_error_text(error));
    return error == -EBUSY ? STATUS_NO_ANSWER : STATUS_USAGE;
}

int ctl_reach(struct ctl_target *t)
{
    uint64_t for_others_ns = t->is_certain ? 0 : OTHERS_WAIT_S * UINT64_C(1000000000);
    int error = t->is_reached ? 0 : mailbox_open(&t->box, t->pid, clock_ns(CLOCK_MONOTONIC) + t->wait_ns + for_others_ns);
    t->is_reached = !error;
    return error ? explain_open(t, error) : 0;
}

int ctl_read(struct ctl_target *t)
{
    const char *reason = t->is_read ? NULL : outside_read(&t->outside, t->pid);
    t->is_read = !reason;
    if (reason)
        cmd_error("%s: %s", t->word, reason);
    return reason ? STATUS_USAGE : 0;
}

static bool is_stopped(pid_t pid)
{
    struct process_stat stat;
    char state = process_stat_read(&stat, pid) ? process_stat_state(&stat) : '\0';
    return state == 'T' || state == 't';
}

static const char *why_nobody_looks(const struct ctl_target *t)
{
    return is_stopped(t->pid) ? "is stopped" : "has not allocated since";
}

static int explain_ask(const struct ctl_target *t, const struct mailbox_request *request, int error)
{
    const char *name = request->name;
    if (error == -ETIMEDOUT && request->verb == MAILBOX_GET) {
        cmd_error("%s: %s: no answer in %g s: only a thread of the program can read this name, and the program %s", t->word, name,
                  (double)t->wait_ns / 1e9, why_nobody_looks(t));
        return STATUS_NO_ANSWER;
    }
    switch (error) {
    case -EINPROGRESS:
        cmd_error("%s: %s waits in the program, which %s; the program does it when it next allocates, 'jespan ctl %s waiting' "
                  "shows it", t->word, name, why_nobody_looks(t), t->word);
        return 0;
    case -ETIMEDOUT:
        cmd_error("%s: %s: no answer in %g s, and nothing was changed: the program %s", t->word, name, (double)t->wait_ns / 1e9,
                  why_nobody_looks(t));
        return STATUS_NO_ANSWER;
    case -EBUSY:
        cmd_error("%s: %s: a thread of the program is at a request and has not finished it; try again", t->word, name);
        return STATUS_NO_ANSWER;
    case -ENOSPC:
        cmd_error("%s: %s: %d requests wait already; 'jespan ctl %s withdraw' takes them back", t->word, name, MAILBOX_SLOTS, t->word);
        return STATUS_NO_ANSWER;
    case -EAGAIN:
        cmd_error("%s: %s: another process writes requests too; try again", t->word, name);
        return STATUS_NO_ANSWER;
    default:
        cmd_error("%s: %s: %s", t->word, name, error == -ESRCH ? "the process has ended" : strerror(-error));
        return STATUS_USAGE;
    }
}

const char *ctl_reason(const struct mailbox_request *request, int error)
{
    static const char *const not_permitted[] = {[MAILBOX_GET] = "is no name that can be read from outside",
                                                [MAILBOX_SET] = "is no name that can be set from outside",
                                                [MAILBOX_CALL] = "is no name that can be called from outside"};
    switch (error) {
    case EPERM:
        return request->verb >= MAILBOX_GET && request->verb <= MAILBOX_CALL ? not_permitted[request->verb] : "is refused";
    case ENOENT:
        return "does not exist in it";
    case ESTALE:
        return "is another context's number now; the context that was meant is gone";
    default:
        return error == EINVAL && request->verb == MAILBOX_SET ? "does not take this value" : NULL;
    }
}

static int explain_answer(const struct ctl_target *t, const struct mailbox_request *request, int error)
{
    const char *reason = ctl_reason(request, error);
    cmd_error("%s: %s %s%s", t->word, request->name, reason ? "" : "fails: ", reason ? reason : strerror(error));
    return STATUS_REFUSED;
}

static bool may_ask(const struct mailbox_request *request)
{
    const char *name = request->name;
    return request->verb == MAILBOX_GET ? names_outside_is_asked(name) : names_permitted_find(name, request->verb) != NULL;
}

int ctl_ask(struct ctl_target *t, struct mailbox_request *request, struct mailbox_answer *answer)
{
    if (!may_ask(request)) /* the program would refuse it, but may sleep */
        return explain_answer(t, request, EPERM);
    int error = -EAGAIN, status = ctl_reach(t);
    if (status)
        return status;
    bool may_leave = request->verb != MAILBOX_GET && !t->is_certain;
    if (request->verb == MAILBOX_GET && !t->is_certain)
        t->wait_ns = DEFAULT_READ_WAIT_S * UINT64_C(1000000000);
    for (int i = 0; i < TRIES && error == -EAGAIN; i++)
        error = mailbox_ask(&t->box, request, answer, clock_ns(CLOCK_MONOTONIC) + t->wait_ns,
                            may_leave ? MAILBOX_LEAVE : MAILBOX_TAKE_BACK);
    if (error)
        return explain_ask(t, request, error);
    return answer->error ? explain_answer(t, request, answer->error) : 0;
}

int ctl_begin(struct mailbox_request *request, enum mailbox_verb verb, const char *name)
{
    *request = (struct mailbox_request){.verb = verb};
    if (strlen(name) < sizeof request->name) {
        memcpy(request->name, name, strlen(name));
        return 0;
    }
    cmd_error("the name is too long: %s", name);
    return STATUS_USAGE;
}

/* ---- set ---- */

static bool parse_number(const char *word, uint64_t *value)
{
    char *end;
    if (!strcmp(word, "true") || !strcmp(word, "false")) {
        *value = word[0] == 't';
        return true;
    }
    if (word[0] != '-')
        return !bytes_parse(word, value);
    errno = 0;
    *value = (uint64_t)strtoll(word, &end, 10);
    return isdigit((unsigned char)word[1]) && !*end && !errno;
}

/* The program would take a negative number for a very large one. */
static bool is_negative(const struct mailbox_request *request, const char *word)
{
    const struct permitted_name *name = names_permitted_find(request->name, MAILBOX_SET);
    return word[0] == '-' && request->has_value && name && name->kind == MAILBOX_UNSIGNED;
}

/* A limit is for the context that has the number now, also if the program makes the change much later. */
static int begin_set(struct ctl_target *t, struct mailbox_request *request, const char *name)
{
    if (ctl_is_limit(name))
        return ctl_begin_limit(t, request, name);
    uint32_t id = names_outside_limited(name);
    int status = ctl_begin(request, MAILBOX_SET, name);
    if (!status && id)
        status = ctl_read(t);
    int error = !status && id ? names_outside_life(t->outside.view, id, &request->life) : 0;
    if (error == -ENOENT)
        return explain_answer(t, request, ENOENT);
    if (error)
        cmd_error("%s: %s", t->word, view_error_text(error));
    return error ? STATUS_USAGE : status;
}

static int set(struct ctl_target *t, const char *name, const char *word)
{
    struct mailbox_request request;
    struct mailbox_answer answer;
    int status = strcmp(name, "spans.stacks") == 0 ? run_check_stacks(name, word) : 0;
    if (!status)
        status = begin_set(t, &request, name);
    if (status)
        return status;
    if (strlen(word) >= sizeof request.words) {
        cmd_error("the value is too long: %s", word);
        return STATUS_USAGE;
    }
    memcpy(request.words, word, strlen(word));
    request.has_value = parse_number(word, &request.value);
    if (is_negative(&request, word)) {
        cmd_error("%s: '%s' is negative, and %s takes no negative number", t->word, word, name);
        return STATUS_USAGE;
    }
    if (!request.has_value && names_outside_limited(request.name)) { /* the program may sleep, and say so hours later */
        cmd_error("'%s' is no number of bytes, such as 64M", word);
        return STATUS_USAGE;
    }
    return ctl_ask(t, &request, &answer);
}

static int do_set(struct ctl_target *t, char **words, int n)
{
    (void)n;
    return set(t, words[0], words[1]);
}

static int do_stacks(struct ctl_target *t, char **words, int n)
{
    char *name = "spans.stacks";
    return n ? set(t, name, words[0]) : ctl_get(t, &name, 1);
}

static int call(struct ctl_target *t, const char *name)
{
    struct mailbox_request request;
    struct mailbox_answer answer;
    int status = ctl_begin(&request, MAILBOX_CALL, name);
    return status ? status : ctl_ask(t, &request, &answer);
}

static int do_purge(struct ctl_target *t, char **words, int n)
{
    (void)words;
    (void)n;
    return call(t, PURGE_ALL);
}

static int do_call(struct ctl_target *t, char **words, int n)
{
    (void)n;
    return call(t, words[0]);
}

/* ---- The command line ---- */

static const struct verb {
    const char *name;
    int least, most; /* words after it */
    int (*run)(struct ctl_target *t, char **words, int n);
} verbs[] = {
    {"get", 1, 1000, ctl_get}, {"list", 0, 1, ctl_list}, {"dump", 0, 1, ctl_dump},
    {"set", 2, 2, do_set}, {"call", 1, 1, do_call}, {"stacks", 0, 1, do_stacks}, {"purge", 0, 0, do_purge},
    {"waiting", 0, 0, ctl_waiting}, {"withdraw", 0, 1, ctl_withdraw},
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

static int fail_usage(const char *what, const char *word)
{
    cmd_error("%s%s%s%s; see 'jespan help ctl'", what, *word ? " '" : "", word, *word ? "'" : "");
    return STATUS_USAGE;
}

static int read_wait(void *data, const char *word)
{
    struct ctl_target *t = data;
    char *end;
    double seconds = strtod(word, &end);
    if (end == word || *end || !(seconds >= 0 && seconds <= 1e6)) {
        cmd_error("--wait: '%s' is not a number of seconds from 0 to 1000000", word);
        return STATUS_USAGE;
    }
    t->is_certain = true;
    t->wait_ns = (uint64_t)(seconds * 1e9);
    return 0;
}

static int execute(struct ctl_target *t, const struct verb *verb, char **words, int n)
{
    int status = verb->run(t, words, n);
    if (t->is_reached)
        mailbox_close(&t->box);
    if (t->is_read)
        outside_close(&t->outside);
    return status ? status : cmd_finish_output();
}

static int run(int argc, char **argv)
{
    struct ctl_target t = {.wait_ns = DEFAULT_WAIT_S * UINT64_C(1000000000)};
    const struct cmd_option rows[] = {{"wait", .read = read_wait, .data = &t}, {"json", .on = &t.json}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_FIRST);
    text_init();
    if (status != OPTIONS_READ)
        return status;
    if (argc - optind < 2)
        return fail_usage(optind == argc ? "there is no PID" : "there is no VERB", "");
    t.word = argv[optind];
    t.pid = cmd_pid(t.word);
    if (!t.pid)
        return cmd_no_pid(t.word);
    char **words = argv + optind + 2;
    int n = argc - optind - 2;
    for (int i = -1; i < n; i++)
        if (strncmp(words[i], "--", 2) == 0) /* no name, value or path of a limit begins like this */
            return fail_usage("options must be before PID, also", words[i]);
    const struct verb *verb = find_verb(words[-1]);
    if (!verb && strchr(words[-1], '.'))
        return fail_usage("'get' or 'set' is missing before the name", words[-1]);
    if (!verb)
        return fail_usage("unknown verb", words[-1]);
    if (n < verb->least || n > verb->most)
        return fail_usage(n < verb->least ? "a word is missing after" : "there are too many words after", verb->name);
    return execute(&t, verb, words, n);
}

const struct command command_ctl = {
    .name = "ctl",
    .summary = "read and change a running process: stacks, limits, purge, any setting",
    .usage =
        "usage: jespan ctl [OPTION…] PID VERB…\n"
        "\n"
        "Reads and changes a running process that has jespan in it. What the process's\n"
        "books have is read from outside at once, also if the program sleeps, hangs or is\n"
        "stopped. For all else, a thread of the program calls mallctl when it next\n"
        "allocates. If the program sleeps, a change waits in it until then.\n"
        "\n"
        "  get NAME…        prints values. Most of spans.* is read from outside; the program\n"
        "                   is asked for jemalloc's names. 'total.peak_bytes:request > cache'\n"
        "                   is a figure of the span on that path\n"
        "  list [PATTERN]   prints the names that can be read from outside, with their values:\n"
        "                   'spans.stats.*'\n"
        "  set NAME VALUE   sets one: a number, a size (64M), true, false or a word.\n"
        "                   'limit:request > cache' and 'limit_soft:cache{tenant=blue}' are the\n"
        "                   limits of the span on that path\n"
        "  call NAME        calls a name that has no value, such as arena.0.decay\n"
        "  dump [FILE]      writes a heap dump, made from outside (default: heap.PID.pb.gz;\n"
        "                   - is standard output)\n"
        "  stacks [MODE]    prints or sets which allocations are credited to their stack\n"
        "                   of calls: off, sampled, all, or 'all@NAME|NAME*' for spans and\n"
        "                   threads of these names\n"
        "  purge            gives unused pages of all arenas back to the system\n"
        "  waiting          prints the changes that wait in the program, and what became of\n"
        "                   those that have waited\n"
        "  withdraw [NAME]  takes waiting changes back: all, or those of NAME\n"
        "\n"
        "  --wait SECONDS   be certain: a change that the program has not made in that time\n"
        "                   is taken back\n"
        "  --json           get, list, stacks and waiting print JSON\n"
        "\n"
        "It needs what a debugger needs: the same user or root, and a system that lets\n"
        "processes be read (kernel.yama.ptrace_scope is 0, or root).\n"
        "\n"
        "Exit status: 0 done, or waits in the program (stderr says so); 1 the program\n"
        "refused, or the output could not be written; 2 wrong command line, or the\n"
        "process could not be reached; 3 no answer in time, and nothing was changed.\n",
    .run = run,
};
