# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/outlived.c %D%/outlived.h \
	%D%/program.h \
	%D%/reading.c %D%/reading.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/snapshot_ages.c \
	%D%/snapshot_builder.h \
	%D%/snapshot_delta.h \
	%D%/top_holders.c %D%/top_holders.h \
	%D%/view.h

EXTRA_DIST += %D%/README.md
