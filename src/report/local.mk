# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/alerts.c %D%/alerts.h \
	%D%/alert_stacks.c %D%/alert_stacks.h \
	%D%/alert_watch.c %D%/alert_watch.h \
	%D%/background.c %D%/background.h \
	%D%/dump.c %D%/dump.h \
	%D%/dump_dir.c %D%/dump_dir.h \
	%D%/dump_file.c %D%/dump_file.h \
	%D%/dump_series.c %D%/dump_series.h \
	%D%/dump_timer.c %D%/dump_timer.h \
	%D%/dump_watch.c %D%/dump_watch.h \
	%D%/event_watch.c %D%/event_watch.h \
	%D%/exporter.h \
	%D%/goodbye.c %D%/goodbye.h \
	%D%/late_start.c %D%/late_start.h \
	%D%/limit_events.c %D%/limit_events.h \
	%D%/module.h \
	%D%/process.c \
	%D%/process_context.c %D%/process_context.h \
	%D%/reporter_session.c %D%/reporter_session.h \
	%D%/reporter_tell.c \
	%D%/reporters.c %D%/reporters.h \
	%D%/service.h \
	%D%/sidecar_page.c %D%/sidecar_page.h \
	%D%/services.c %D%/services.h \
	%D%/signals.c %D%/signals.h \
	%D%/stacks_signal.c %D%/stacks_signal.h \
	%D%/unfollowed.c %D%/unfollowed.h

# Only in the shared library, where there is a dynamic linker.
shared_sources += \
	%D%/main_begin.c \
	%D%/module_dl.c

# Only in the archive.
static_sources += \
	%D%/module_static.c

EXTRA_DIST += %D%/README.md
