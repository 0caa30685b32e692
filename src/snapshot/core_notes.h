/* SPDX-License-Identifier: BSD-2-Clause */
/* What the notes of a core say (core_file.h): the mapped files, the process and its name, and what base/state_file.h adds. */
#ifndef JESPAN_CORE_NOTES_H
#define JESPAN_CORE_NOTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A part of a file that the process had mapped. */
struct mapped {
    uint64_t start, end, offset; /* in bytes */
    const char *path;
    uint32_t flags; /* PF_R, PF_W, PF_X; for the reader */
    int fd; /* for the reader. 0: not opened yet; -1: it cannot be opened, or is another file now */
};

/* At first all zero. */
struct core_notes {
    struct mapped *files; /* as the notes list them */
    uint64_t n_files;
    pid_t pid;            /* 0: not known */
    char program[32];     /* the process's name, of which the kernel keeps 15 characters */
    uint64_t changed_ns;  /* of a state file: when it was changed, in Unix time; else 0 */
    bool is_incomplete;   /* of a state file: it had no room for all */
    struct kept_notes *kept;
    uint64_t bytes;
};

/* Sets *room to memory for so many bytes of notes, which belongs to *n. Returns 0, -ENOMEM, or -EBADMSG: no core has so many. */
int core_notes_room(struct core_notes *n, uint64_t bytes, char **room);

/* Reads the notes there. Returns 0, -ENOMEM, or -EBADMSG: they are damaged. */
int core_notes_take(struct core_notes *n, const char *notes, uint64_t size);

void core_notes_free(struct core_notes *n);

#endif
