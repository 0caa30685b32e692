# SPDX-License-Identifier: BSD-2-Clause
symbols_sources = \
	%D%/demangle.c %D%/demangle.h \
	%D%/demangle_rust.c \
	%D%/rust_reader.c %D%/rust_reader.h \
	%D%/symbols.c %D%/symbols.h \
	%D%/symbols_child.c \
	%D%/symbols_dwarf.c \
	%D%/symbols_file.c %D%/symbols_parts.h \
	%D%/symbols_map.c \
	%D%/symbols_starts.c \
	%D%/symbols_table.c

EXTRA_DIST += %D%/README.md
