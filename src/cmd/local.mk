# SPDX-License-Identifier: BSD-2-Clause
command_sources += \
	%D%/conf.c \
	%D%/jespan.c \
	src/conf/conf_keys.c

report_sources += \
	%D%/check.c %D%/check.h \
	%D%/check_results.c \
	%D%/check_rules.c \
	%D%/ctl.c \
	%D%/ctl_limit.c \
	%D%/ctl_target.h \
	%D%/ctl_values.c \
	%D%/ctl_waiting.c \
	%D%/symbolize.c \
	%D%/symbolize_calls.c %D%/symbolize_calls.h

EXTRA_DIST += %D%/README.md

# The words that a shell completes
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/completion/jespan
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = %D%/completion/_jespan
