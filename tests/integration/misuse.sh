#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Code that must not compile: labels without a value, and arguments of a wrong type in the macros of the public header.
# With gcc, g++, clang and clang++, if they are installed, in all usual standards. Also with the library's header as a
# system header, where compilers suppress warnings.

. "$(dirname "$0")/../support/lib.sh"
include=${top_srcdir:?}/include

many=$(for i in {1..17}; do printf ', "k%d", "v"' "$i"; done)
fine=(
    'JESPAN("a");'
    'JESPAN("a", "k", text, "own", own, "array", array);'
    'JESPAN("a", "k", n ? "v" : NULL);'
    "JESPAN(\"a\"$many);" # one is left out
    'JESPAN("a"); JESPAN("b", "k", "v");'
    'JESPAN_WITH("a", JESPAN_LABEL("k", own), JESPAN_LABEL_INT("n", n), JESPAN_LABEL_INT("c", array[0]));'
    'static const struct jespan_label label = JESPAN_LABEL("k", "v"); (void)label;'
    'JESPAN_SITE_ARENA(site, "s", JESPAN_ARENA_REGION); JESPAN_REGION_OF(&site); JESPAN_REGION("r");'
    'JESPAN_CREDIT(jespan_current());'
)

# Statements with what is said of each. Those that any compiler of C++ refuses by itself are said in its own words.
value='a label has no value' string='this is not a string' integer='this is not an integer'
context='this is not the number of a context' site='this is not the address of a struct jespan_site'
wrong=('JESPAN("a", "k");' "$value" 'JESPAN("a", "k", "v", "l");' "$value" "JESPAN(\"a\"$many, \"k\");" "$value")
for bad in 7 0 n 1.5 pair "'c'" '*pair' '&n'; do
    wrong+=("JESPAN(\"a\", \"k\", $bad);" "$string" "JESPAN(\"a\", $bad, \"v\");" "$string")
    wrong+=("JESPAN_WITH(\"a\", JESPAN_LABEL(\"k\", $bad));" "$string")
done
wrong+=('JESPAN(7);' "$string" 'JESPAN_REGION(7);' "$string" 'JESPAN_WITH("a", JESPAN_LABEL_INT(7, 1));' "$string")
wrong+=('JESPAN_SITE(site, 7); JESPAN_REGION_OF(&site);' "$string")
wrong+=('JESPAN_SITE(site, 7, .arena = {.flags = 1}); JESPAN_REGION_OF(&site);' "$string")
wrong+=('JESPAN_SITE_ARENA(site, 7, 0); JESPAN_REGION_OF(&site);' "$string")
own_words=('JESPAN_WITH("a", JESPAN_LABEL_INT("k", text));' "$integer" 'JESPAN_WITH("a", JESPAN_LABEL_INT("k", "v"));' "$integer")
own_words+=('JESPAN_CREDIT(span);' "$context" 'JESPAN_REGION_OF(pair);' "$site" 'JESPAN_REGION_OF(7);' "$site")

# program STATEMENTS…: a function for each, in a line of its own from line 101 on.
program() {
    printf '%s\n' '#include <stddef.h>' '#include <jespan/jespan.h>' 'struct pair { int a, b; };'
    local parameters='(const char *text, char *own, int n, struct pair *pair, jespan_span_t *span)' line=101 statement
    for statement; do
        printf '#line %d "program"\n' $line
        printf 'int f%d%s; int f%d%s { char array[8] = "x"; (void)text, (void)own, (void)n, (void)pair, (void)span, (void)array; { %s } return 0; }\n' \
            $line "$parameters" $line "$parameters" "$statement"
        line=$((line + 1))
    done
}

# accepts COMPILER…: no warning either.
accepts() {
    program "${fine[@]}" | "$@" -Wall -Wextra -Wshadow -Wundef -pedantic -Werror -fsyntax-only - || fail "not accepted by: $*"
}

# refuses_each COMPILER…: of C, where each statement has its own error; without a warning asked for.
refuses_each() {
    local cases=("${wrong[@]}" "${own_words[@]}") statements=() said i
    for ((i = 0; i < ${#cases[@]}; i += 2)); do
        statements+=("${cases[i]}")
    done
    said=$(program "${statements[@]}" | "$@" -fsyntax-only - 2>&1) && fail "accepted by: $*"
    for ((i = 0; i < ${#cases[@]}; i += 2)); do
        grep -q "^program:$((101 + i / 2)):.*error:.*${cases[i + 1]}" <<< "$said" ||
            fail "not said of ${cases[i]}: ${cases[i + 1]}, by: $*"
    done
}

# refuses STATEMENT MESSAGE COMPILER…
refuses() {
    local statement=$1 message=$2 said
    shift 2
    said=$(program "$statement" | "$@" -fsyntax-only - 2>&1) && fail "$statement is accepted by: $*"
    grep -q "error:.*$message" <<< "$said" || fail "not said of $statement: $message, by: $*"
}

for option in -I -isystem; do
    for standard in c11 gnu11 c17; do
        for compiler in 'gcc -ftrack-macro-expansion=0' 'clang -ferror-limit=0'; do
            read -ra how <<< "$compiler"
            have "${how[0]}" || continue
            accepts "${how[@]}" -std=$standard -x c $option "$include"
            refuses_each "${how[@]}" -std=$standard -x c $option "$include"
        done
    done
    for standard in c++11 c++17 c++20; do
        for compiler in g++ clang++; do
            have $compiler || continue
            accepts $compiler -std=$standard -x c++ $option "$include"
            refuses 'JESPAN("a", "k");' "$value" $compiler -std=$standard -x c++ $option "$include"
            refuses 'JESPAN("a", "k", 7);' "$string" $compiler -std=$standard -x c++ $option "$include"
        done
    done
done

# A template complains once for each type.
for compiler in 'g++ -std=c++20' 'clang++ -std=c++20'; do
    read -ra how <<< "$compiler"
    have "${how[0]}" || continue
    for ((i = 0; i < ${#wrong[@]}; i += 2)); do
        refuses "${wrong[i]}" "${wrong[i + 1]}" "${how[@]}" -x c++ -isystem "$include"
    done
    for ((i = 0; i < ${#own_words[@]}; i += 2)); do
        refuses "${own_words[i]}" '' "${how[@]}" -x c++ -isystem "$include"
    done
done
# The header of C++17 says so in one error where C++ is older, and nothing else.
for compiler in g++ clang++; do
    have $compiler || continue
    for standard in c++11 c++14; do
        said=$(echo '#include <jespan/jespan.hpp>' | $compiler -std=$standard -I "$include" -x c++ -fsyntax-only - 2>&1) &&
            fail "jespan.hpp is accepted by: $compiler -std=$standard"
        equal "$compiler -std=$standard: errors" "$(grep -c 'error:' <<< "$said")" 1
        grep -q 'error:.*jespan/jespan.hpp needs C++17' <<< "$said" || fail "$compiler -std=$standard: not said of jespan.hpp: C++17"
    done
done
finish
