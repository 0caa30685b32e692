/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks a process of the command for the functions of calls. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sidecar/call_names.h"

extern char **environ;

/* ---- The process ---- */

/* It must not have the library in it. Names come from this machine: a server of debug information is asked only by commands that a
 * user runs. The caller frees the list. */
static char **make_environment(void)
{
    static const char *const left_out[] = {"LD_PRELOAD=", "JESPAN_CONF=", "DEBUGINFOD_URLS="};
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    char **made = calloc(n + 1, sizeof *made);
    for (size_t i = 0; i < n && made; i++) {
        bool is_left_out = false;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++)
            is_left_out |= strncmp(environ[i], left_out[k], strlen(left_out[k])) == 0;
        if (!is_left_out)
            made[kept++] = environ[i];
    }
    return made;
}

/* Starts it with standard input and output as given. -1: it cannot be started. */
static pid_t start(int in, int out)
{
    char *const argv[] = {"jespan", "symbolize", "--calls", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid = -1;
    char **environment = make_environment();
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!environment || posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv, environment) != 0)
        pid = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return pid;
}

/* ---- Questions and answers. The process reads all questions before it answers ---- */

static bool is_same_binary(const struct call_names_call *a, const struct call_names_call *b)
{
    return a->path == b->path || (strcmp(a->path, b->path) == 0 && strcmp(a->build_id, b->build_id) == 0);
}

static void send_questions(FILE *to, const struct call_names_call *calls, uint32_t n)
{
    for (const struct call_names_call *call = calls; call < calls + n; call++) {
        struct call_names_question question = {.offset = call->offset};
        if (call == calls || !is_same_binary(call, call - 1)) {
            question.path_bytes = (uint32_t)strlen(call->path);
            question.build_id_bytes = (uint32_t)strlen(call->build_id);
        }
        fwrite(&question, sizeof question, 1, to);
        fwrite(call->path, 1, question.path_bytes, to);
        fwrite(call->build_id, 1, question.build_id_bytes, to);
    }
}

struct texts {
    char name[CALL_NAMES_TEXT_BYTES], file[CALL_NAMES_TEXT_BYTES];
};

static bool read_text(FILE *from, char text[CALL_NAMES_TEXT_BYTES], uint32_t bytes)
{
    if (bytes >= CALL_NAMES_TEXT_BYTES || fread(text, 1, bytes, from) != bytes)
        return false;
    text[bytes] = '\0';
    return true;
}

static bool read_function(FILE *from, struct texts *texts, struct service_function *to)
{
    struct call_names_function head;
    if (fread(&head, sizeof head, 1, from) != 1 || !read_text(from, texts->name, head.name_bytes)
        || !read_text(from, texts->file, head.file_bytes))
        return false;
    *to = (struct service_function){texts->name, texts->file, head.line, (enum service_role)head.role};
    return true;
}

static void read_answers(FILE *from, uint32_t n,
                         void (*take)(void *data, uint32_t i, const struct service_function *functions, uint32_t n_functions), void *data)
{
    struct call_names_answer head;
    struct service_function functions[CALL_NAMES_FUNCTIONS];
    struct texts *texts = calloc(CALL_NAMES_FUNCTIONS, sizeof *texts);
    while (texts && fread(&head, sizeof head, 1, from) == 1 && head.question < n && head.n_functions <= CALL_NAMES_FUNCTIONS) {
        uint32_t read = 0;
        while (read < head.n_functions && read_function(from, &texts[read], &functions[read]))
            read++;
        if (read < head.n_functions)
            break;
        take(data, head.question, functions, read);
    }
    free(texts);
}

/* A descriptor is closed if there is no stream for it. */
static FILE *open_stream(int fd, const char *mode)
{
    FILE *made = fdopen(fd, mode);
    if (!made)
        close(fd);
    return made;
}

bool call_names_ask(const struct call_names_call *calls, uint32_t n,
                    void (*take)(void *data, uint32_t i, const struct service_function *functions, uint32_t n_functions), void *data)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0)
        return false;
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    pid_t pid = start(in[0], out[1]);
    close(in[0]);
    close(out[1]);
    FILE *to = open_stream(in[1], "w"), *from = open_stream(out[0], "r");
    if (to && pid > 0)
        send_questions(to, calls, n);
    if (to)
        fclose(to);
    if (from && pid > 0)
        read_answers(from, n, take, data);
    if (from)
        fclose(from);
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}
