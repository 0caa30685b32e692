# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/block.h \
	%D%/label_api.c \
	%D%/limit_api.c \
	%D%/owner_api.c \
	%D%/region_api.c \
	%D%/scope_api.c \
	%D%/span_api.c \
	%D%/traceparent.c

# Only in the shared library, where there is a dynamic linker.
shared_sources += \
	%D%/inherit.c %D%/inherit.h

EXTRA_DIST += %D%/README.md
