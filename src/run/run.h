/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan run`: the library and the program to start (run_library.c, run_program.c), and the program's environment
 * (run_environment.c). A function that returns an exit status returns 0, or prints an error and returns the status. */
#ifndef JESPAN_RUN_RUN_H
#define JESPAN_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The command line. NULL = not given. */
struct run_options {
    const char *dump_dir, *interval, *keep, *conf, *lib;
    const char *pyroscope, *otlp, *app, *http;
    const char *limit, *arena, *dump_on, *only;
    const char *dir_files, *dir_bytes, *stacks, *guard;
    const char *flame, *flame_events, *flame_svg, *trace, *alert;
    bool follow_fork, time, peak, in_process, quiet, from_run;
};

/* Read options up to the first other word, as cmd_options() does (options.h), and check their values. */
int run_options_read(struct run_options *options, int argc, char **argv);
int serve_options_read(struct run_options *options, int argc, char **argv);

/* ---- run_checks.c: print an error that names the option, and return its status; or return 0 ---- */

/* A mode of stacks. NULL is right. */
int run_check_stacks(const char *option, const char *mode);

/* An empty text is right: it is nowhere. */
int run_check_url(const char *option, const char *url);
int run_check_http(const char *option, const char *address);

/* Lists of limits, arenas, rules of alerts, events. */
int run_check_limits(const char *option, const char *list);
int run_check_arenas(const char *option, const char *list);
int run_check_alerts(const char *option, const char *list);
int run_check_events(const char *option, const char *list);

/* The addresses in the value of --conf. */
int run_check_conf(const char *text);

/* The files that a run writes at its end: can they be written, and are they different ones? */
int run_check_files(const struct run_options *options);

/* ---- The library and the program ---- */

struct run_library {
    char path[PATH_MAX];    /* absolute */
    char modules[PATH_MAX]; /* the directory of its modules; "" if that is the one that was configured */
};

/* Finds the library: `wanted`, else JESPAN_LIB, else beside this command (a build directory or an installation, also one that
 * was moved), else where it was configured to be. Returns 0 or STATUS_PREPARE. */
int run_library_find(struct run_library *library, const char *wanted);

struct run_program {
    char path[PATH_MAX];
};

/* Finds the program as the shell does. Returns 0, STATUS_NOT_FOUND or STATUS_NOT_EXECUTABLE. */
int run_program_find(struct run_program *program, const char *name);

/* Warns if the loader will not preload `library` into the program: if it is linked statically without jespan, runs with raised
 * privileges, or is built for another machine or for musl. Looks at the interpreter of a script. Returns false if the program must not
 * get the library, because it has jespan in it, so that both would report, or because musl would load it. */
bool run_program_check(const struct run_program *program, const char *library);

/* Returns true if heap dumps are wanted: with services only if there is an option for dumps. */
bool run_wants_dumps(const struct run_options *options);

/* All files of a run lie in a directory of its own, jespan.PROGRAM.PID. Returns `directory`. */
const char *run_dump_dir_name(char directory[PATH_MAX], const char *program, pid_t pid);

/* Sets `dump_dir` (PATH_MAX bytes) to an absolute path that exists and can be written to. Sets it to "" if the user's
 * configuration names the directory, which is then left to the library; and, unless `needs_one`, with a warning, if `by_default` cannot be
 * made. Returns 0 or STATUS_PREPARE. */
int run_dump_dir_choose(char *dump_dir, const struct run_options *options, const char *by_default, bool needs_one);

/* Removes the directories that run_dump_dir_choose() has created, as long as they are empty. */
void run_dump_dir_undo(void);

/* Warns if forked processes shall write dumps and only root can: a server's workers run as another user. */
void run_dump_dir_check_workers(const char *dump_dir, const struct run_options *options);

/* The environment of the program: that of this process, with two variables before it. They come first because jespan may look
 * for them before libc is ready, and then sees only the beginning. */
struct run_environment {
    char *preload, *conf;
    char **all;
};

/* Composes the configuration for the process `pid`. `dump_dir` may be "". Warns if it names a directory of the user in which no dump
 * can be written. Returns 0 or STATUS_PREPARE. The memory of this
 * function and the next is never freed: the process becomes the program. */
int run_conf_make(char **text, const struct run_options *options, const char *dump_dir, const struct run_library *library, pid_t pid);

/* The value of a key in a configuration: the last one counts. "": there is none, or it is longer. */
void run_conf_value(char *value, size_t bytes, const char *text, const char *key);

/* Makes the environment, with the library as the first one to preload, or without it. Returns 0 or STATUS_PREPARE. */
int run_environment_make(struct run_environment *environment, const char *text, const struct run_library *library, bool preloads);

struct command;
extern const struct command command_run;

/* Process 1 of a PID namespace splits in two: it stays and waits, and its child, in which this function returns, becomes
 * the program. With `takes_terminal` the program gets a process group of its own, and the terminal. Returns 0 or
 * STATUS_PREPARE. */
int run_init_split(bool takes_terminal);

/* Tells that process, if there is one, to wait for the sidecar too. */
void run_init_tell(pid_t sidecar);

/* Starts the sidecar of this process: a process with another session, that is no child of this one. It gets `text` as
 * its configuration. Writes the value of the key `sidecar` for the program. Returns false if the sidecar cannot work,
 * after a warning. */
#define RUN_SIDECAR_BYTES 64
bool run_sidecar_start(char page[RUN_SIDECAR_BYTES], const char *text, bool quiet);

/* This process becomes a program of its own run, so the sidecar of a `jespan run` that started it reports for it no longer. */
void run_sidecar_leave_outer(void);

/* Where the sidecar finds what this process gave it. */
enum { RUN_SIDECAR_PIDFD = 3, RUN_SIDECAR_PAGE = 4, RUN_SIDECAR_READY = 5 };

/* ---- run_elf.c: reads the parts of an ELF file that decide whether the loader can preload a library ---- */

struct run_elf {
    uint8_t elf_class;  /* ELFCLASS32 or ELFCLASS64 */
    uint8_t byte_order; /* ELFDATA2LSB or ELFDATA2MSB */
    uint16_t machine;   /* EM_X86_64, … */
    bool is_dynamic;    /* the file names a loader, or is one */
    bool has_jespan;    /* itself, from libjespan.a */
    bool is_of_musl;
};

/* Returns false if `path` cannot be read or is not an ELF file. */
bool run_elf_read(struct run_elf *elf, const char *path);

/* The file of this command. /proc may not be mounted; then it is the file as it was executed. */
const char *run_elf_own(void);

/* Returns true if both files are for the same kind of machine. */
bool run_elf_same_machine(const struct run_elf *a, const struct run_elf *b);

/* Returns true if `path` is a shared library for this machine that defines `symbol` for other programs. Reads the dynamic
 * segment, as the loader does: section headers may be missing. */
bool run_elf_exports(const char *path, const char *symbol);

#endif
