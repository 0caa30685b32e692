# SPDX-License-Identifier: BSD-2-Clause
symbols_sources = \
	%D%/demangle.c %D%/demangle.h \
	%D%/demangle_rust.c %D%/demangle_rust.h \
	%D%/symbols.c %D%/symbols.h \
	%D%/symbols_child.c %D%/symbols_child.h \
	%D%/symbols_dwarf.c %D%/symbols_dwarf.h \
	%D%/symbols_file.c %D%/symbols_file.h \
	%D%/symbols_table.c %D%/symbols_table.h

EXTRA_DIST += %D%/README.md
