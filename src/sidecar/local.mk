# SPDX-License-Identifier: BSD-2-Clause
# Part of the command. What it shares with the library is compiled again for the command.
sidecar_sources = \
	%D%/call_names.c %D%/call_names.h \
	%D%/call_names_ask.c \
	%D%/children.c %D%/children.h \
	%D%/end_line.c %D%/end_line.h \
	%D%/ending.c %D%/ending.h \
	%D%/event_dumps.c %D%/event_dumps.h \
	%D%/holders.c %D%/holders.h \
	%D%/modules.c %D%/modules.h \
	%D%/names.c %D%/names.h \
	%D%/page.c %D%/page.h \
	%D%/readings.c %D%/readings.h \
	%D%/served.c %D%/served.h \
	%D%/served_push.c %D%/served_push.h \
	%D%/sidecar.c %D%/sidecar.h \
	%D%/stacks_ask.c %D%/stacks_ask.h \
	%D%/watched.c %D%/watched.h \
	src/base/dump_on.c \
	src/base/memory_bounds.c \
	src/base/procfile.c \
	src/base/stop_sockets.c \
	src/conf/conf.c \
	src/conf/conf_parse.c \
	src/conf/conf_values.c \
	src/conf/conf_variables.c \
	src/report/alerts.c \
	src/report/alert_stacks.c \
	src/report/dump_dir.c \
	src/report/dump_file.c \
	src/report/dump_series.c \
	src/report/event_watch.c \
	src/report/module_dl.c \
	src/report/sidecar_page.c \
	src/report/unfollowed.c

EXTRA_DIST += %D%/README.md
