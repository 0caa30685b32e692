/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds a binary: at its path, if its build id is the wanted one, else by its build id, below /usr/lib/debug or from the
 * debuginfod servers of DEBUGINFOD_URLS. libdwfl then finds its debug file by the same ways and by .gnu_debuglink. */
#include "symbols_parts.h"

#include <elf.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BUILD_ID 64
#define MAX_VDSO_BYTES ((size_t)64 << 10)
#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"

/* Owned by libdwfl's sessions, and not freed: the child ends soon. */
static char *debug_path;
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &debug_path,
};

/* --- Build ids ------------------------------------------------------------------------------------------------------ */

static void write_hex(char *to, const unsigned char *id, size_t n)
{
    to[0] = '\0';
    for (size_t i = 0; i < n && i < MAX_BUILD_ID; i++)
        snprintf(to + 2 * i, 3, "%02x", id[i]);
}

/* Returns the number of bytes; 0 if the text is no build id. */
static size_t read_hex(const char *text, unsigned char id[MAX_BUILD_ID])
{
    size_t digits = strlen(text);
    if (digits % 2 != 0 || digits > (size_t)2 * MAX_BUILD_ID || strspn(text, "0123456789abcdefABCDEF") != digits)
        return 0;
    for (size_t i = 0; i < digits / 2; i++) {
        const char byte[] = {text[2 * i], text[2 * i + 1], '\0'};
        id[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    return digits / 2;
}

/* --- The file ------------------------------------------------------------------------------------------------------- */

/* A device or a FIFO is not opened: opening one may do something. */
int symbols_open_regular(const char *path, const char **reason)
{
    struct stat status;
    int fd = stat(path, &status) != 0 ? -1 : S_ISREG(status.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -2;
    *reason = fd == -2 ? "is not a file" : fd < 0 ? strerror(errno) : NULL;
    return fd;
}

/* The vdso belongs to the kernel. The vdso of this process is used if it has the wanted build id. */
static int open_vdso(const char **reason)
{
    const void *start = (const void *)getauxval(AT_SYSINFO_EHDR); /* NOLINT */
    int fd = start ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    *reason = fd < 0 ? "this process has none" : NULL;
    if (fd < 0)
        return -1;
    /* The mapping may be shorter. write(2) stops at its end. */
    for (size_t n = 0; n < MAX_VDSO_BYTES; n += 4096)
        if (write(fd, (const char *)start + n, 4096) != 4096)
            break;
    return fd;
}

static bool has_elf_magic(int fd)
{
    char magic[SELFMAG];
    return pread(fd, magic, SELFMAG, 0) == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/* Returns whether the file is a binary and may be the wanted one. If not, the reason is empty where there is nothing to warn of. */
static bool is_wanted(int fd, const char *path, const char *build_id, char reason[SYMBOLS_REASON_BYTES])
{
    char hex[2 * MAX_BUILD_ID + 1] = "";
    const void *id;
    GElf_Ehdr header;
    bool is_wanted = false;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (build_id[0] == '\0' && elf_kind(elf) == ELF_K_NONE && !has_elf_magic(fd)) {
        reason[0] = '\0'; /* a file of another kind with code, such as a .dll or an image of Lisp */
    } else if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.300s is not an ELF file, or is damaged", path);
    } else {
        ssize_t n = dwelf_elf_gnu_build_id(elf, &id);
        write_hex(hex, id, n > 0 ? (size_t)n : 0);
        is_wanted = build_id[0] == '\0' || strcasecmp(hex, build_id) == 0;
        if (!is_wanted)
            snprintf(reason, SYMBOLS_REASON_BYTES, "%.200s has the build id %.64s, and the profile has %.64s: the file was replaced", path,
                     hex[0] == '\0' ? "(none)" : hex, build_id);
    }
    elf_end(elf);
    return is_wanted;
}

static int open_at_path(const char *path, const char *build_id, char reason[SYMBOLS_REASON_BYTES])
{
    const char *why;
    int fd = strcmp(path, "[vdso]") == 0 ? open_vdso(&why) : symbols_open_regular(path, &why);
    if (fd < 0) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.400s: %s", path, why);
        return -1;
    }
    if (is_wanted(fd, path, build_id, reason))
        return fd;
    close(fd);
    return -1;
}

/* libdwfl asks the debuginfod servers too, if the user names any. */
static int open_by_build_id(const char *path, const char *build_id)
{
    unsigned char id[MAX_BUILD_ID];
    char file[sizeof DEBUG_DIRECTORY + 2 * MAX_BUILD_ID + sizeof "/.debug"], *found = NULL, ignored[SYMBOLS_REASON_BYTES];
    const char *why;
    Elf *elf = NULL;
    size_t n = read_hex(build_id, id);
    if (n < 2)
        return -1;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    Dwfl_Module *module = dwfl ? dwfl_report_module(dwfl, path, 0x10000, 0x20000) : NULL;
    if (module && dwfl_module_report_build_id(module, id, n, 0x10000) == 0) {
        int fd = dwfl_build_id_find_elf(module, NULL, path, 0x10000, &found, &elf);
        if (fd >= 0)
            return fd;
    }
    snprintf(file, sizeof file, "%s/%.2s/%s.debug", DEBUG_DIRECTORY, build_id, build_id + 2);
    int fd = symbols_open_regular(file, &why);
    if (fd >= 0 && is_wanted(fd, file, build_id, ignored))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --- Segments ------------------------------------------------------------------------------------------------------- */

bool symbols_file_segment(const struct symbols_file *file, uint32_t type, uint32_t flags, GElf_Phdr *segment, size_t *at)
{
    size_t n;
    if (elf_getphdrnum(file->elf, &n) != 0)
        return false;
    for (; *at < n; ++*at)
        if (gelf_getphdr(file->elf, (int)*at, segment) && segment->p_type == type && (segment->p_flags & flags) == flags)
            return true;
    return false;
}

/* How much farther from the start code is in memory than in the file. A file of debug information does not have the offsets of the
 * file with the code. lld gives a segment the first offset after the segment before it that has the same place in a page as its
 * address, and the address is on a later page. */
static uint64_t compute_distance(const struct symbols_file *file, size_t code)
{
    GElf_Phdr segment;
    uint64_t start = 0, end = 0;
    for (size_t at = 0; at <= code && symbols_file_segment(file, PT_LOAD, 0, &segment, &at); at++) {
        start = end + ((segment.p_vaddr - end) & (segment.p_align - 1));
        end = start + segment.p_memsz;
    }
    return segment.p_vaddr - start;
}

/* GNU ld puts code at the start of a page, and at the same distance from the start in the file and in memory, nearly always. */
static void read_segments(struct symbols_file *file)
{
    GElf_Phdr segment;
    size_t at = 0;
    if (symbols_file_segment(file, PT_LOAD, 0, &segment, &at))
        file->first_address = segment.p_vaddr - segment.p_offset;
    at = 0;
    file->only_debug = symbols_file_segment(file, PT_LOAD, PF_X, &segment, &at) && segment.p_filesz == 0;
    if (file->only_debug && segment.p_align > 1 && segment.p_vaddr % segment.p_align != 0)
        file->first_address = compute_distance(file, at);
}

/* A file of debug information has no code, and its offsets differ. */
uint64_t symbols_file_address(const struct symbols_file *file, uint64_t offset)
{
    GElf_Phdr segment;
    for (size_t at = 0; !file->only_debug && symbols_file_segment(file, PT_LOAD, PF_X, &segment, &at); at++)
        if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz)
            return segment.p_vaddr + (offset - segment.p_offset);
    return file->first_address + offset;
}

bool symbols_file_open(struct symbols_file *file, const char *path, const char *build_id, char reason[SYMBOLS_REASON_BYTES])
{
    GElf_Addr bias = 0;
    memset(file, 0, sizeof *file);
    elf_version(EV_CURRENT);
    int fd = open_at_path(path, build_id, reason);
    if (fd < 0)
        fd = open_by_build_id(path, build_id);
    if (fd < 0)
        return false;
    reason[0] = '\0';
    Dwfl *dwfl = dwfl_begin(&callbacks);
    file->module = dwfl ? dwfl_report_offline(dwfl, path, path, fd) : NULL;
    if (dwfl)
        dwfl_report_end(dwfl, NULL, NULL);
    file->elf = file->module ? dwfl_module_getelf(file->module, &bias) : NULL;
    if (!file->elf) {
        snprintf(reason, SYMBOLS_REASON_BYTES, "%.300s cannot be read: %s", path, dwfl_errmsg(-1));
        return false;
    }
    file->bias = bias;
    read_segments(file);
    return true;
}
