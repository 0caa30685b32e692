# SPDX-License-Identifier: BSD-2-Clause
# `output.c` and `text.c` are for the commands of a build with pprof only.
command_sources += \
	%D%/command.c %D%/command.h \
	%D%/options.c %D%/options.h

report_sources += \
	%D%/output.c %D%/output.h \
	%D%/text.c %D%/text.h

EXTRA_DIST += %D%/README.md
