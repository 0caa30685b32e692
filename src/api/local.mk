# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/block_api.c \
	%D%/block_slow.c %D%/block_slow.h \
	%D%/context_api.c \
	%D%/enter_api.c \
	%D%/label_api.c \
	%D%/snapshot_api.c \
	%D%/span_api.c \
	%D%/trace_api.c

# Only in the shared library, where there is a dynamic linker.
shared_sources += \
	%D%/inherit.c %D%/inherit.h \
	%D%/thread_names.c

EXTRA_DIST += %D%/README.md
