/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind rules from .sframe, for code that has none in .eh_frame.
 *
 * The format is SFrame, versions 1 to 3, for x86-64: "The SFrame Format", a manual of binutils 2.40, 2.41 and 2.46. A linker has sorted
 * the functions. This reader takes no lock, allocates nothing, and reads nothing outside the section, whatever that contains. */
#ifndef JESPAN_SFRAME_H
#define JESPAN_SFRAME_H

#include "stacks/rule.h"

struct sframe_section {
    const unsigned char *start, *end; /* both NULL: there is none */
};

/* Sets the rule for an instruction. The kind is UNWIND_UNKNOWN if the section has no rule for it or is damaged. */
void sframe_find(const struct sframe_section *section, uintptr_t pc, struct unwind_rule *rule);

#endif
