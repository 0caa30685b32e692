# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/classes.c %D%/classes.h \
	%D%/counters.h \
	%D%/depot.c %D%/depot.h \
	%D%/header.h \
	%D%/large.c %D%/large.h \
	%D%/lifetimes.h \
	%D%/magazine.c %D%/magazine.h \
	%D%/pagemap.c %D%/pagemap.h \
	%D%/sums.c %D%/sums.h \
	%D%/tables.c %D%/tables.h \
	%D%/thread.c %D%/thread.h \
	%D%/timing.c %D%/timing.h

EXTRA_DIST += %D%/README.md
