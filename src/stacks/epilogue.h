/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules for generated code that leaves its function right after a call, as trampolines do. Such code has no .eh_frame, and often no
 * frame pointer: what Python makes for each of its functions ("-X perf") has neither. */
#ifndef JESPAN_EPILOGUE_H
#define JESPAN_EPILOGUE_H

#include <stddef.h>

#include "stacks/rule.h"

#define EPILOGUE_BYTES 24u /* of code that are enough */

/* Sets the rule if the code at a return address only takes its frame back and returns: one add to the stack pointer, or none, then pops
 * of registers, then ret. Nothing can branch into the middle of that, so the rule is certain while the code stays. Otherwise the
 * rule stays as it is. */
void epilogue_find(const unsigned char *code, size_t bytes, struct unwind_rule *rule);

#endif
