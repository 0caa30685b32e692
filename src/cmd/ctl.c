/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ctl`: asks a running process to call mallctl. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cmd.h"
#include "ctl_target.h"
#include "options.h"
#include "snapshot/view.h"

#define DEFAULT_READ_WAIT_S 5
#define DEFAULT_WAIT_S 1 /* then a request that changes something is left in the program */
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

/* The state in /proc/PID/stat stands behind the name in brackets. */
static bool is_stopped(pid_t pid)
{
    char path[40], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    const char *behind = strrchr(text, ')');
    return behind && (!strncmp(behind, ") T", 3) || !strncmp(behind, ") t", 3));
}

static const char *why_nobody_looks(const struct ctl_target *t)
{
    return is_stopped(t->pid) ? "is stopped" : "has not allocated since";
}

static int explain_ask(const struct ctl_target *t, const char *name, int error)
{
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

/* Returns the exit status, after a message if it is not 0 or the request is left. */
static int ask(struct ctl_target *t, struct mailbox_request *request, struct mailbox_answer *answer)
{
    int error = -EAGAIN;
    bool may_leave = request->verb != MAILBOX_GET && !t->is_certain;
    if (request->verb == MAILBOX_GET && !t->is_certain)
        t->wait_ns = DEFAULT_READ_WAIT_S * UINT64_C(1000000000);
    for (int i = 0; i < TRIES && error == -EAGAIN; i++)
        error = mailbox_ask(&t->box, request, answer, clock_ns(CLOCK_MONOTONIC) + t->wait_ns,
                            may_leave ? MAILBOX_LEAVE : MAILBOX_TAKE_BACK);
    if (error)
        return explain_ask(t, request->name, error);
    return answer->error ? explain_answer(t, request, answer->error) : 0;
}

static int begin(struct mailbox_request *request, enum mailbox_verb verb, const char *name)
{
    *request = (struct mailbox_request){.verb = verb};
    if (strlen(name) < sizeof request->name) {
        memcpy(request->name, name, strlen(name));
        return 0;
    }
    cmd_error("the name is too long: %s", name);
    return STATUS_USAGE;
}

/* ---- get ---- */

void ctl_print_words(const char *words)
{
    for (; *words; words++)
        putchar(iscntrl((unsigned char)*words) ? '?' : *words);
}

static void print_value(const struct mailbox_answer *answer)
{
    switch (answer->kind) {
    case MAILBOX_BOOL:
        fputs(answer->value ? "true" : "false", stdout);
        break;
    case MAILBOX_SIGNED:
        printf("%" PRId64, (int64_t)answer->value);
        break;
    case MAILBOX_UNSIGNED:
        printf("%" PRIu64, answer->value);
        break;
    default:
        ctl_print_words(answer->words);
        break;
    }
    putchar('\n');
}

static int get(struct ctl_target *t, const char *name, bool with_name)
{
    struct mailbox_request request;
    struct mailbox_answer answer;
    int status = begin(&request, MAILBOX_GET, name);
    if (!status)
        status = ask(t, &request, &answer);
    if (status)
        return status;
    if (with_name)
        printf("%s: ", name);
    print_value(&answer);
    return 0;
}

static int do_get(struct ctl_target *t, char **words, int n)
{
    int status = 0;
    for (int i = 0; i < n && !status; i++)
        status = get(t, words[i], n > 1);
    return status;
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

static int set(struct ctl_target *t, const char *name, const char *word)
{
    struct mailbox_request request;
    struct mailbox_answer answer;
    int status = begin(&request, MAILBOX_SET, name);
    if (status)
        return status;
    if (strlen(word) >= sizeof request.words) {
        cmd_error("the value is too long: %s", word);
        return STATUS_USAGE;
    }
    memcpy(request.words, word, strlen(word));
    request.has_value = parse_number(word, &request.value);
    return ask(t, &request, &answer);
}

static int do_set(struct ctl_target *t, char **words, int n)
{
    (void)n;
    return set(t, words[0], words[1]);
}

static int do_stacks(struct ctl_target *t, char **words, int n)
{
    return n ? set(t, "spans.stacks", words[0]) : get(t, "spans.stacks", false);
}

static int call(struct ctl_target *t, const char *name)
{
    struct mailbox_request request;
    struct mailbox_answer answer;
    int status = begin(&request, MAILBOX_CALL, name);
    return status ? status : ask(t, &request, &answer);
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
    {"get", 1, 1000, do_get}, {"set", 2, 2, do_set}, {"call", 1, 1, do_call}, {"stacks", 0, 1, do_stacks}, {"purge", 0, 0, do_purge},
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
    int error = mailbox_open(&t->box, t->pid, clock_ns(CLOCK_MONOTONIC) + t->wait_ns);
    if (error)
        return explain_open(t, error);
    int status = verb->run(t, words, n);
    mailbox_close(&t->box);
    return status ? status : cmd_finish_output();
}

static int run(int argc, char **argv)
{
    struct ctl_target t = {.wait_ns = DEFAULT_WAIT_S * UINT64_C(1000000000)};
    const struct cmd_option rows[] = {{"wait", .read = read_wait, .data = &t}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_FIRST);
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
    const struct verb *verb = find_verb(words[-1]);
    if (!verb)
        return fail_usage("unknown verb", words[-1]);
    if (n < verb->least || n > verb->most)
        return fail_usage(n < verb->least ? "a word is missing after" : "there are too many words after", verb->name);
    return execute(&t, verb, words, n);
}

const struct command command_ctl = {
    .name = "ctl",
    .summary = "change a running process: stacks, limits, purge, any setting",
    .usage =
        "usage: jespan ctl [OPTION…] PID VERB…\n"
        "\n"
        "Asks a running process that has jespan in it to call mallctl. A thread of the\n"
        "program does so when it next allocates. If the program sleeps, a change waits\n"
        "in it until then.\n"
        "\n"
        "  get NAME…        prints values, of spans.* and of jemalloc's names\n"
        "  set NAME VALUE   sets one: a number, a size (64M), true, false or a word\n"
        "  call NAME        calls a name that has no value, such as arena.0.decay\n"
        "  stacks [MODE]    prints or sets which allocations are credited to their stack\n"
        "                   of calls: off, sampled or all\n"
        "  purge            gives unused pages of all arenas back to the system\n"
        "  waiting          prints the changes that wait in the program, and what became of\n"
        "                   those that have waited\n"
        "  withdraw [NAME]  takes waiting changes back: all, or those of NAME\n"
        "\n"
        "  --wait SECONDS   be certain: a change that the program has not made in that time\n"
        "                   is taken back\n"
        "\n"
        "It needs what a debugger needs: the same user or root, and a system that lets\n"
        "processes be read (kernel.yama.ptrace_scope is 0, or root).\n"
        "\n"
        "Exit status: 0 done, or waits in the program (stderr says so); 1 the program\n"
        "refused, or the output could not be written; 2 wrong command line, or the\n"
        "process could not be reached; 3 no answer in time, and nothing was changed.\n",
    .run = run,
};
