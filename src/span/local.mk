# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/age.c %D%/age.h \
	%D%/arena_conf.c %D%/arena_conf.h \
	%D%/context_path.c %D%/context_path.h \
	%D%/context_policy.h \
	%D%/events.c %D%/events.h \
	%D%/handles.c %D%/handles.h \
	%D%/label_cache.c %D%/label_cache.h \
	%D%/labels.c %D%/labels.h \
	%D%/peaks.c %D%/peaks.h \
	%D%/sampler.c %D%/sampler.h \
	%D%/sites.c %D%/sites.h \
	%D%/span.c %D%/span.h \
	%D%/stack_code.c %D%/stack_code.h \
	%D%/stack_context.c %D%/stack_context.h \
	%D%/stack_find.h \
	%D%/stack_mode.c %D%/stack_mode.h \
	%D%/stack_thread.c \
	%D%/tree.c %D%/tree.h \
	%D%/tree_hash.c %D%/tree_hash.h \
	%D%/tree_recycle.c \
	%D%/tree_totals.c

EXTRA_DIST += %D%/README.md
