# SPDX-License-Identifier: BSD-2-Clause
report_sources += \
	%D%/dump.c \
	%D%/outside.c %D%/outside.h \
	%D%/ps.c \
	%D%/rss.c \
	%D%/threads.c %D%/threads.h \
	%D%/threads_table.c

EXTRA_DIST += %D%/README.md
