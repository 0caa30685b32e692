/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .eh_frame.
 *
 * The format is that of the Linux Standard Base: .eh_frame_hdr has a sorted table of functions, .eh_frame a small program
 * (DWARF call frame information) for each. This reader knows the instructions that compilers write. It takes no lock,
 * allocates nothing, and reads nothing outside the given segment, whatever the segment contains. */
#ifndef JESPAN_EH_FRAME_H
#define JESPAN_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "stacks/rule.h"

/* The segment of an object that has .eh_frame_hdr and .eh_frame in it. */
struct eh_frame_section {
    const unsigned char *start, *end; /* all that may be read */
    const unsigned char *header;      /* .eh_frame_hdr */
};

/* Sets the rule for an instruction. The kind is UNWIND_UNKNOWN if the segment has no rule for it or is damaged. */
void eh_frame_find(const struct eh_frame_section *section, uintptr_t pc, struct unwind_rule *rule);

/* Sets where the function of an instruction begins. Returns false if the segment has no entry for it or is damaged. A part that the
 * compiler has moved away (main.cold) has an entry of its own. */
bool eh_frame_start(const struct eh_frame_section *section, uintptr_t pc, uintptr_t *start);

#endif
