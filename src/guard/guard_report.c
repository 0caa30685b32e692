/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of what happened to a guarded object. */
#include "guard/guard_report.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "heap/pagemap.h"
#include "span/context_path.h"
#include "span/tree.h"

#define PATH_BYTES 400 /* a line has 511 */

struct decimal {
    char text[NUMBER_BYTES];
};

static const char *decimal(struct decimal *d, uint64_t value)
{
    return number_text(d->text, value, 10);
}

static const char *hexadecimal(struct decimal *d, uintptr_t value)
{
    return number_text(d->text, value, 16);
}

/* ---- Frames ---- */

/* The file of the code, and its address there; NULL: code of no file. The program itself has no name in the list of
 * objects. */
static const char *file_of(uintptr_t address, char path[PATH_BYTES], uintptr_t *in_file)
{
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object))
        return NULL;
    const char *name = object.dlfo_link_map->l_name;
    *in_file = address - object.dlfo_link_map->l_addr;
    if (name && name[0])
        return name;
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - 1);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

/* `address` is in the instruction that called. */
static void say_frame(uint32_t i, uintptr_t address)
{
    struct decimal index, offset;
    char path[PATH_BYTES];
    uintptr_t in_file = address;
    const char *file = file_of(address, path, &in_file);
    WARN("    #", decimal(&index, i), " ", file ? file : "", file ? "+0x" : "0x", hexadecimal(&offset, in_file));
}

static void say_thread(const char *what, pid_t thread, const char *name, const char *end)
{
    struct decimal number;
    WARN("  ", what, " by thread ", decimal(&number, (uint64_t)thread), name[0] ? " (" : "", name, name[0] ? ")" : "", end);
}

static void say_place(const char *what, const struct guard_place *place)
{
    if (!place->thread)
        return;
    say_thread(what, place->thread, place->name, place->n ? ":" : ", at an unknown place");
    for (uint32_t i = 0; i < place->n; i++)
        say_frame(i, place->frames[i] - 1);
}

static void say_access_place(const struct guard_access *access)
{
    say_thread("accessed", gettid(), thread_current ? thread_current->name : "", ":");
    say_frame(0, access->pc);
    for (uint32_t i = 0; i < access->n && i < GUARD_FRAMES; i++)
        say_frame(i + 1, access->frames[i] - 1);
}

/* ---- The object ---- */

static void say_object(const struct guard_slot *slot)
{
    struct decimal bytes, start;
    char path[GUARD_OWNER_BYTES];
    const char *owner = slot->owner;
    uint32_t state = load_acquire(&slot->state);
    page_entry_t *page = pagemap_page(slot->start);
    uint32_t tag = page ? entry_big_tag(load_relaxed(page)) & ~TAG_SURVIVOR : 0;
    if (state == GUARD_LIVE && tag)
        owner = context_path(tree_whole(tag), path, sizeof path);
    WARN("  object of ", decimal(&bytes, slot->bytes), " bytes at 0x", hexadecimal(&start, slot->start), ", owned by ", owner);
}

static void say_history(const struct guard_slot *slot)
{
    if (load_acquire(&slot->state) == GUARD_FREED)
        say_place("freed", &slot->freed);
    say_place("allocated", &slot->allocated);
    WARN("  'addr2line -Cfipe FILE 0x…' prints the function and line of FILE+0x…");
}

/* "8 bytes into", "0 bytes beyond the end of", "1 byte before". */
static const char *relation(const struct guard_slot *slot, uintptr_t address, uintptr_t *bytes)
{
    if (address < slot->start) {
        *bytes = slot->start - address;
        return " before the start of";
    }
    *bytes = address - slot->start;
    if (*bytes < slot->bytes)
        return " after the start of";
    *bytes -= slot->bytes;
    return " after the end of";
}

/* ---- Reports ---- */

static void say_access(const struct guard_access *access, const struct guard_slot *slot)
{
    struct decimal address, distance, size;
    uintptr_t bytes;
    const char *where = relation(slot, access->address, &bytes);
    bool is_freed = load_acquire(&slot->state) != GUARD_LIVE;
    const char *what = is_freed ? "use after free: " : access->address < slot->start ? "underflow: " : "overflow: ";
    WARN(what, access->is_write ? "write to" : "read of", " 0x",
         hexadecimal(&address, access->address), ", ", decimal(&distance, bytes), bytes == 1 ? " byte" : " bytes", where,
         is_freed ? " a freed object of " : " an object of ", decimal(&size, slot->bytes), slot->bytes == 1 ? " byte" : " bytes");
}

COLD void guard_report_access(const struct guard_access *access)
{
    const struct guard_slot *slot = guard_nearest(access->address);
    struct decimal address;
    if (slot)
        say_access(access, slot);
    else
        WARN("wild access: ", access->is_write ? "write to" : "read of", " 0x", hexadecimal(&address, access->address),
             ", where no object was");
    if (slot)
        say_object(slot);
    say_access_place(access);
    if (slot)
        say_history(slot);
}

static _Noreturn void die_with(const struct guard_slot *slot, struct guard_place *place, const char *what)
{
    if (slot)
        say_object(slot);
    say_place(what, place);
    if (slot)
        say_history(slot);
    abort();
}

COLD _Noreturn void guard_die_of_free(const void *p)
{
    const struct guard_slot *slot = guard_nearest((uintptr_t)p);
    struct guard_place place;
    struct decimal address, distance;
    uintptr_t bytes = 0;
    guard_note_place(&place, thread_current);
    bool is_twice = slot && slot->start == (uintptr_t)p, is_inside = slot && !is_twice;
    const char *where = is_inside ? relation(slot, (uintptr_t)p, &bytes) : "";
    WARN(is_twice ? "double free of 0x" : "free of a pointer that is not allocated: 0x", hexadecimal(&address, (uintptr_t)p),
         is_inside ? ", " : "", is_inside ? decimal(&distance, bytes) : "", is_inside ? bytes == 1 ? " byte" : " bytes" : "", where,
         is_inside ? load_acquire(&slot->state) == GUARD_LIVE ? " an object" : " a freed object" : "");
    die_with(slot, &place, is_twice ? "freed again" : "freed here");
}

COLD _Noreturn void guard_die_of_damage(const struct guard_slot *slot, const char *at)
{
    struct guard_place place;
    struct decimal address, distance, size;
    uintptr_t bytes;
    const char *where = relation(slot, (uintptr_t)at, &bytes);
    guard_note_place(&place, thread_current);
    WARN((uintptr_t)at < slot->start ? "underflow" : "overflow", ", found when the object was freed: write to 0x",
         hexadecimal(&address, (uintptr_t)at), ", ", decimal(&distance, bytes), bytes == 1 ? " byte" : " bytes", where, " an object of ",
         decimal(&size, slot->bytes), slot->bytes == 1 ? " byte" : " bytes");
    die_with(slot, &place, "freed");
}
