# SPDX-License-Identifier: BSD-2-Clause
stress_parts = # of programs of several files, the other files without their endings
stress_tests += \
	%D%/alert_callback \
	%D%/arenas \
	%D%/async \
	%D%/depot \
	%D%/labels \
	%D%/large \
	%D%/limits \
	%D%/limits_model \
	%D%/mix \
	%D%/oracle \
	%D%/oracle_arenas \
	%D%/oracle_guarded \
	%D%/oracle_stacks \
	%D%/queries \
	%D%/regions \
	%D%/retention \
	%D%/samplers \
	%D%/snapshot_api \
	%D%/stats_print \
	%D%/switching

cxx_tests += %D%/oracle_new
tests_stress_oracle_new_SOURCES = %D%/oracle_new.cc

if HAVE_CXX
stress_tests += %D%/regions_mix
tests_stress_regions_mix_SOURCES = %D%/regions_mix.cc %D%/regions_mix.h %D%/regions_mix_checks.cc %D%/regions_mix_objects.cc \
	%D%/regions_mix_worker.cc
stress_parts += %D%/regions_mix_checks %D%/regions_mix_objects %D%/regions_mix_worker
endif

all_load_tests += \
	%D%/oom.sh \
	%D%/pressure.sh \
	%D%/soak.sh

pyroscope_script_tests += \
	%D%/pyroscope_day.sh

# What they compile
test_support += \
	%D%/oom_program.c \
	%D%/pressure_program.c \
	%D%/pyroscope_program.c
