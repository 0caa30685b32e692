# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/cfi.c %D%/cfi.h \
	%D%/codes.c %D%/codes.h \
	%D%/eh_frame.c %D%/eh_frame.h \
	%D%/epilogue.c %D%/epilogue.h \
	%D%/layouts.c %D%/layouts.h \
	%D%/objects.c %D%/objects.h \
	%D%/rule.h \
	%D%/sframe.c %D%/sframe.h \
	%D%/stack_bounds.c %D%/stack_bounds.h \
	%D%/stack_lines.c %D%/stack_lines.h \
	%D%/stacks.c %D%/stacks.h \
	%D%/trail.c %D%/trail.h \
	%D%/unwind.c %D%/unwind.h \
	%D%/unwind_hash.c \
	%D%/unwind_rules.c %D%/unwind_rules.h

EXTRA_DIST += %D%/README.md
