/* SPDX-License-Identifier: BSD-2-Clause */
/* The state file: a copy of the books of this process in a shared mapping of a file, which outlives the process however it
 * ends. Off unless `state_file` asks for it. docs/state.md describes the file, which is a core for its readers.
 *
 * Only the counters of contexts lie in the mapping itself, so malloc and free count into the file with the same
 * instructions as without it. All else that readers need is copied by the cold paths that change it: state_copy(). So a
 * process that shares the mapping with another one, as a child of clone(2) that calls no fork handlers, could spoil figures
 * and nothing else.
 *
 * The descriptor is closed once the file is mapped. Each page of the mapping is backed before it is used, so a full disk is
 * found out without SIGBUS.
 *
 * A word in a page that the kernel clears in each child (MADV_WIPEONFORK) tells whose file it is. In a child nothing of this
 * file does anything, except that the child gets private counters in place of the shared ones.
 *
 * All functions are for any thread, and leave errno alone, unless their comment says otherwise.
 */
#ifndef JESPAN_STATE_FILE_H
#define JESPAN_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/* Creates the file, with %p in the path for the process's number. To be called once, at boot. Returns 0 or a negative errno:
 *   EINVAL      another % in the path
 *   EEXIST      there is a file at the path that is no state file, or another user's
 *   EBUSY       it is the state file of a process that lives
 *   EFBIG       the limit of file sizes is below 16 MiB (RLIMIT_FSIZE)
 *   ENOSPC      no room for the first pages
 *   ENOSYS      the kernel has no MADV_WIPEONFORK: Linux before 4.14
 *   ENOMEM, and those of open(2), ftruncate(2) and mmap(2)
 * Changes errno. */
int state_file_open(const char *path);

/* Writes the path for a process, with its number for each %p. Returns 0, or -EINVAL or -ENAMETOOLONG. */
#define STATE_PATH_BYTES 1024
int state_file_path(char to[STATE_PATH_BYTES], const char *path, pid_t pid);

extern INTERNAL _Atomic uint32_t *state_is_mine; /* NULL: no state file; 0 in a child */

/* This process has a state file. */
static inline bool state_is_on(void)
{
    return unlikely(state_is_mine != NULL) && load_relaxed(state_is_mine);
}

/* Zeroed memory in the file, whole pages, which is never freed. NULL: no state file, or no room. */
void *state_counters(size_t bytes);

/* The file gets a copy of this memory, which stays at its address for good. */
void state_watch(const void *p, size_t bytes);

/* Brings the copy up to date. Does nothing for memory that is not watched. */
void state_copy_now(const void *p, size_t bytes);
static inline void state_copy(const void *p, size_t bytes)
{
    if (state_is_on())
        state_copy_now(p, bytes);
}
#define STATE_COPY(object) state_copy((const void *)&(object), sizeof(object))

/* Makes the file readable, once all that readers need is watched. To be called once. Changes errno. */
void state_file_publish(void);

/* Removes the file: the program ends as it wished. Changes errno. */
void state_file_remove(void);

/* ---- Children ---- */

/* The forking thread holds all locks. A child has the counters as they are now. */
void state_before_fork(void);
void state_after_fork_in_parent(void);
void state_after_fork_in_child(void);

/* To be called now and then, without a lock, on a path that is slow anyway. Makes the counters private if this process is a
 * child whose fork handlers did not run. Adds libraries that were loaded. */
void state_look(void);

/* There is a stack with this return address. A library that is not in the file yet is added later. */
void state_see_code(uintptr_t address);

/* ---- Of state_create.c, for state_file.c ---- */

struct state_mapping {
    char *base;
    size_t bytes;
    dev_t device;
    ino_t inode;
    char path[STATE_PATH_BYTES];
};

/* Creates and maps the file. Returns 0, or an error of state_file_open(), after which nothing is mapped and no file left. */
int state_create(struct state_mapping *to, const char *path);

/* ---- For state_maps.c ---- */

/* For code and for areas of memory together. */
#define STATE_MAX_SEGMENTS 4096u

/* Memory in the file, at `offset`; NULL: no room. A segment is a row of the core's table. Under LOCK_STATE. */
char *state_take(size_t bytes, uint64_t *offset);
bool state_add_segment(uint32_t type, uint32_t flags, uintptr_t address, uint64_t memory_bytes, uint64_t offset, uint64_t file_bytes);

/* Adds segments and notes about the program and its libraries, those that are new. Takes LOCK_STATE. */
void state_add_maps(void);
void state_add_maps_if_due(void);

/* The note of the state file itself: its name is STATE_NOTE_NAME, its type STATE_NOTE_TYPE. */
#define STATE_NOTE_NAME "jespan"
#define STATE_NOTE_TYPE 2u
struct state_note {
    uint64_t changed_ns; /* when something was copied last: CLOCK_REALTIME */
    uint32_t incomplete; /* not 0: something did not fit */
    uint32_t unused;
};
extern struct state_note *state_note; /* in the file */

/* Bytes 9 to 15 of a state file; e_flags has the process's number. */
#define STATE_MAGIC "jespan\n"
#define STATE_MAGIC_AT 9

#endif
