/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .eh_frame: how to get from a frame to its caller's.
 *
 * The format is that of the Linux Standard Base: .eh_frame_hdr has a sorted table of functions, .eh_frame a small program
 * (DWARF call frame information) for each. This reader knows the instructions that compilers write. It takes no lock,
 * allocates nothing, and reads nothing outside the given segment, whatever the segment contains. */
#ifndef JESPAN_EH_FRAME_H
#define JESPAN_EH_FRAME_H

#include <stdint.h>

/* The canonical frame address (CFA) is the value of the stack pointer in the caller, right after the call returns. The
 * return address is at CFA - 8. */
enum unwind_kind {
    UNWIND_UNKNOWN,  /* there is no rule: only the frame pointer may lead to the caller */
    UNWIND_SP,       /* CFA = stack pointer + cfa */
    UNWIND_BP,       /* CFA = frame pointer + cfa */
    UNWIND_DEREF_BP, /* CFA = the word at frame pointer + cfa: a function that aligns its stack */
    UNWIND_SIGNAL,   /* the kernel called a signal handler here */
    UNWIND_END,      /* the outermost frame */
};
enum unwind_bp {
    UNWIND_BP_SAME,   /* the frame does not change the frame pointer */
    UNWIND_BP_AT_CFA, /* the caller's is saved at CFA + bp */
    UNWIND_BP_AT_BP,  /* the caller's is saved at frame pointer + bp */
};

struct unwind_rule {
    enum unwind_kind kind;
    enum unwind_bp bp_kind;
    int32_t cfa, bp;
};

/* The segment of an object that has .eh_frame_hdr and .eh_frame in it. */
struct eh_frame_section {
    const unsigned char *start, *end; /* all that may be read */
    const unsigned char *header;      /* .eh_frame_hdr */
};

/* Sets the rule for an instruction. The kind is UNWIND_UNKNOWN if the segment has no rule for it or is damaged. */
void eh_frame_find(const struct eh_frame_section *section, uintptr_t pc, struct unwind_rule *rule);

#endif
