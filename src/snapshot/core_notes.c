/* SPDX-License-Identifier: BSD-2-Clause */
/* What the notes of a core say. */
#include "snapshot/core_notes.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/number.h"
#include "base/state_file.h"

#define MAX_BYTES ((uint64_t)64 << 20)

/* Notes that stay, since there are paths in them. */
struct kept_notes {
    struct kept_notes *before;
    char bytes[];
};

/* NT_FILE: the number of files and the unit of offsets; for each file start, end and offset; then the paths. A state file may
 * have more than one such note. */
static int read_files(struct core_notes *n, const char *content, uint64_t bytes)
{
    uint64_t head[2], entry[3];
    if (bytes < sizeof head)
        return -EBADMSG;
    memcpy(head, content, sizeof head);
    if (head[0] > (bytes - sizeof head) / sizeof entry)
        return -EBADMSG;
    const char *path = content + sizeof head + head[0] * sizeof entry, *end = content + bytes;
    struct mapped *files = realloc(n->files, (n->n_files + head[0] + 1) * sizeof *files);
    if (!files)
        return -ENOMEM;
    n->files = files;
    for (uint64_t i = 0; i < head[0]; i++, n->n_files++) {
        size_t length = strnlen(path, (size_t)(end - path));
        if (path + length == end)
            return -EBADMSG;
        memcpy(entry, content + sizeof head + i * sizeof entry, sizeof entry);
        if (entry[1] < entry[0] || (head[1] && entry[2] > INT64_MAX / head[1]))
            return -EBADMSG;
        n->files[n->n_files] = (struct mapped){entry[0], entry[1], entry[2] * head[1], path, 0, 0};
        path += length + 1;
    }
    return 0;
}

static int read_note(struct core_notes *n, uint32_t type, const char *content, uint64_t bytes)
{
    struct elf_prstatus thread;
    struct elf_prpsinfo process;
    if (type == NT_FILE)
        return read_files(n, content, bytes);
    if (type == NT_PRSTATUS && !n->pid && bytes >= sizeof thread) { /* the thread that died comes first */
        memcpy(&thread, content, sizeof thread);
        n->pid = thread.pr_pid;
    }
    if (type == NT_PRPSINFO && bytes >= sizeof process) {
        memcpy(&process, content, sizeof process);
        n->pid = process.pr_pid;
        snprintf(n->program, sizeof n->program, "%.*s", (int)sizeof process.pr_fname, process.pr_fname);
    }
    return 0;
}

/* The process's state file: base/state_file.h. */
static int read_state_note(struct core_notes *n, uint32_t type, const char *content, uint64_t bytes)
{
    struct state_note state;
    if (type != STATE_NOTE_TYPE || bytes < sizeof state)
        return 0;
    memcpy(&state, content, sizeof state);
    n->is_incomplete = state.incomplete;
    if (state.changed_ns > n->changed_ns && state.changed_ns <= INT64_MAX)
        n->changed_ns = state.changed_ns;
    return 0;
}

static bool is_named(const char *note, uint32_t bytes, const char *name)
{
    return bytes == strlen(name) + 1 && !memcmp(note + sizeof(Elf64_Nhdr), name, bytes);
}

/* Each note is a header, a name and a content, the last two padded to 4 bytes. */
int core_notes_take(struct core_notes *n, const char *notes, uint64_t size)
{
    Elf64_Nhdr note;
    int error = 0;
    for (uint64_t at = 0; !error && size - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        uint64_t content = at + sizeof note + round_up(note.n_namesz, 4);
        uint64_t end = content + round_up(note.n_descsz, 4);
        if (content > size || note.n_descsz > size - content)
            return -EBADMSG;
        if (is_named(notes + at, note.n_namesz, "CORE"))
            error = read_note(n, note.n_type, notes + content, note.n_descsz);
        else if (is_named(notes + at, note.n_namesz, STATE_NOTE_NAME))
            error = read_state_note(n, note.n_type, notes + content, note.n_descsz);
        at = end < size ? end : size;
    }
    return error;
}

int core_notes_room(struct core_notes *n, uint64_t bytes, char **room)
{
    if (bytes > MAX_BYTES - n->bytes)
        return -EBADMSG;
    struct kept_notes *kept = malloc(sizeof *kept + bytes);
    if (!kept)
        return -ENOMEM;
    kept->before = n->kept;
    n->kept = kept;
    n->bytes += bytes;
    *room = kept->bytes;
    return 0;
}

void core_notes_free(struct core_notes *n)
{
    for (struct kept_notes *before; n->kept; n->kept = before) {
        before = n->kept->before;
        free(n->kept);
    }
    free(n->files);
}
