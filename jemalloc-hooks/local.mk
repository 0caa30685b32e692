# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/extents.c %D%/extents.h \
	%D%/span_areas.c \
	%D%/span_extents.c %D%/span_extents.h \
	%D%/span_policy.c %D%/span_policy.h

EXTRA_DIST += %D%/README.md
