# SPDX-License-Identifier: BSD-2-Clause
report_sources += \
	%D%/json.c %D%/json.h \
	%D%/top.c %D%/top.h \
	%D%/top_items.c \
	%D%/top_lines.c \
	%D%/top_model.c \
	%D%/top_outside.c \
	%D%/top_rows.c \
	%D%/top_stacks.c \
	%D%/top_url.c \
	%D%/top_url_views.c
if NCURSES
report_sources += %D%/top_screen.c
endif

EXTRA_DIST += %D%/README.md %D%/top_screen.c
