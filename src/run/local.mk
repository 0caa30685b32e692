# SPDX-License-Identifier: BSD-2-Clause
command_sources += \
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
	src/policy/limit_rules.c src/policy/limit_rules.h \
	src/span/arena_conf.c src/span/arena_conf.h

EXTRA_DIST += %D%/README.md
