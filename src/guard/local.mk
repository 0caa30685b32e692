# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/guard.c %D%/guard.h \
	%D%/guard_report.c %D%/guard_report.h \
	%D%/guard_sample.c %D%/guard_sample.h

EXTRA_DIST += %D%/README.md
