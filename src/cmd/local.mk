# SPDX-License-Identifier: BSD-2-Clause
command_sources = \
	%D%/cmd.h \
	%D%/conf.c \
	%D%/jespan.c \
	%D%/options.c %D%/options.h \
	%D%/run.c %D%/run.h \
	%D%/run_checks.c \
	%D%/run_elf.c \
	%D%/run_environment.c \
	%D%/run_init.c \
	%D%/run_library.c \
	%D%/run_options.c \
	%D%/run_program.c \
	%D%/run_sidecar.c \
	%D%/serve.c \
	src/base/http_address.c src/base/http_address.h \
	src/base/parse.c src/base/parse.h \
	src/conf/conf_keys.c

report_sources = \
	%D%/check.c %D%/check.h \
	%D%/check_results.c \
	%D%/check_rules.c \
	%D%/ctl.c %D%/ctl_target.h \
	%D%/ctl_limit.c \
	%D%/ctl_values.c \
	%D%/ctl_waiting.c \
	%D%/dump.c \
	%D%/hash.c %D%/hash.h \
	%D%/html.c %D%/html.h \
	%D%/html_dumps.c \
	%D%/html_labels.c \
	%D%/html_pack.c \
	%D%/json.c %D%/json.h \
	%D%/leaks.c %D%/leaks.h \
	%D%/leaks_rows.c \
	%D%/outside.c %D%/outside.h \
	%D%/profile.c %D%/profile.h \
	%D%/profile_edit.c \
	%D%/profile_fields.c %D%/profile_fields.h \
	%D%/profile_frames.c \
	%D%/profile_sample.c \
	%D%/ps.c \
	%D%/report.c %D%/report.h \
	%D%/report_by.c \
	%D%/report_columns.c \
	%D%/report_directory.c \
	%D%/report_export.c \
	%D%/report_folded.c \
	%D%/report_filter.c \
	%D%/report_input.c \
	%D%/report_path.c \
	%D%/report_rows.c \
	%D%/report_svg.c \
	%D%/report_table.c \
	%D%/report_top.c \
	%D%/report_tree.c \
	%D%/rss.c \
	%D%/stack.c %D%/stack.h \
	%D%/suppressions.c \
	%D%/symbolize.c %D%/symbolize.h \
	%D%/symbolize_calls.c \
	%D%/text.c %D%/text.h \
	%D%/threads.c %D%/threads.h \
	%D%/threads_table.c \
	%D%/top.c %D%/top.h \
	%D%/top_items.c \
	%D%/top_lines.c \
	%D%/top_model.c \
	%D%/top_outside.c \
	%D%/top_rows.c \
	%D%/top_stacks.c \
	%D%/top_url.c \
	%D%/top_url_views.c \
	%D%/wire.h \
	exporters/flame_svg.c exporters/flame_svg.h
if NCURSES
report_sources += %D%/top_screen.c
endif
EXTRA_DIST += %D%/top_screen.c
if PYROSCOPE
report_sources += %D%/fetch.c
else
report_sources += %D%/fetch_without.c
endif

# A profile as the command reads it
profile_parts_c = %D%/profile_parts.pb-c.c
profile_parts_h = %D%/profile_parts.pb-c.h

EXTRA_DIST += %D%/README.md %D%/profile_parts.proto

# The words that a shell completes
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/completion/jespan
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = %D%/completion/_jespan
