#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan symbolize` names the same functions and lines as addr2line, in binaries of many kinds, and the real google/pprof
# reads them.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

need addr2line readelf objcopy strip python3 ld nm
unset DEBUGINFOD_URLS
sources=$top_srcdir/tests/integration
compilers=("$CXX") # a command, which may have arguments: ccache g++
! have clang++ || compilers+=(clang++)

# record PROGRAM: its stacks in $scratch/lines, and with its mappings as a profile in $scratch/profile
record() {
    (cd "$scratch" && "$1" "$scratch/plugin.so" > "$scratch/lines") || fail "$1 fails"
    { grep '^map ' "$scratch/lines"; grep '^sample ' "$scratch/lines"; } | "$top_builddir/tests/support/make_stacks" > "$scratch/profile"
}

# symbolize WHAT: nothing is said on stderr
symbolize() {
    "$JESPAN_CMD" symbolize -o "$scratch/named" "$scratch/profile" 2> "$scratch/err" || fail "$1: symbolize ends with $?"
    [ ! -s "$scratch/err" ] || fail_with "$1: symbolize has something to say" "$scratch/err"
    pprof -raw -symbolize=none "$scratch/named" > "$scratch/raw_named"
}

# compare WHAT FUNCTIONS: as addr2line, and at least so many functions; the samples stay
compare() {
    python3 "$top_srcdir/tests/interop/symbols_compare.py" "$scratch/raw_named" program plugin.so > "$scratch/compared" ||
        fail_with "$1: addr2line says something else" "$scratch/compared"
    local n
    n=$(sed -n 's/.* addresses, \([0-9]*\) functions$/\1/p' "$scratch/compared")
    [ "${n:-0}" -ge "$2" ] || fail_with "$1: fewer than $2 functions" "$scratch/compared"
    pprof -raw -symbolize=none "$scratch/profile" | sed -n '/^Samples/,/^Locations/p' > "$scratch/samples_before"
    sed -n '/^Samples/,/^Locations/p' "$scratch/raw_named" | cmp -s - "$scratch/samples_before" || fail "$1: the samples changed"
}

build() {
    local compiler=$1
    shift
    # shellcheck disable=SC2086
    $compiler -std=gnu++17 -g -O2 -fno-omit-frame-pointer -o "$scratch/program" "$@" "$sources/symbols_program.cc" -ldl
    $CC -g -O2 -shared -fPIC -o "$scratch/plugin.so" "$sources/symbols_library.c"
    record "$scratch/program"
}

test_builds() {
    local compiler flags
    for compiler in "${compilers[@]}"; do
        for flags in -fPIE\ -pie -fno-pie\ -no-pie -gdwarf-4\ -gz -O0; do
            # shellcheck disable=SC2086
            build "$compiler" $flags
            symbolize "$compiler $flags"
            compare "$compiler $flags" 22
        done
    done
}

# pprof finds the same by itself in the file without names.
test_pprof() {
    build "${compilers[0]}"
    symbolize pprof
    pprof -top -nodefraction=0 -symbolize=none "$scratch/named" > "$scratch/top"
    grep -q print_stack "$scratch/top" || fail_with "-top of the result" "$scratch/top"
    for name in 'shop::outer' 'shop::inner' recurse call_back; do
        pprof -peek "$name" -symbolize=none "$scratch/named" > "$scratch/peek"
        grep -qF "$name" "$scratch/peek" || fail_with "pprof does not show $name" "$scratch/peek"
    done
}

# The debug file is elsewhere: by .gnu_debuglink. Without it, the names of the dynamic symbols are left.
test_debuglink() {
    build "${compilers[0]}" -rdynamic
    symbolize "before strip"
    cp "$scratch/raw_named" "$scratch/raw_before"
    mkdir -p "$scratch/.debug"
    objcopy --only-keep-debug "$scratch/program" "$scratch/.debug/program.debug"
    strip -s "$scratch/program"
    objcopy --add-gnu-debuglink="$scratch/.debug/program.debug" "$scratch/program"
    symbolize "debuglink"
    cmp -s "$scratch/raw_named" "$scratch/raw_before" || fail "a debug link gives other names than the program itself"
    rm -r "$scratch/.debug"
    symbolize "stripped"
    grep -q 'shop::outer(int) :0:0' "$scratch/raw_named" || fail_with "stripped: no dynamic symbol" "$scratch/raw_named"
    ! grep -q 'symbols_program' "$scratch/raw_named" || fail_with "stripped: lines" "$scratch/raw_named"
}

# A stripped program: functions without a name are shown by their starts, which nm tells of the program before. They are not kept.
test_starts() {
    build "${compilers[0]}"
    nm "$scratch/program" > "$scratch/nm"
    readelf -lW "$scratch/program" > "$scratch/segments"
    strip -s "$scratch/program"
    "$JESPAN_CMD" report --by function --all-frames --csv "$scratch/profile" > "$scratch/functions" 2> /dev/null || fail "starts: report ends with $?"
    python3 - "$scratch" > "$scratch/starts" << 'END' || fail_with "functions without a name" "$scratch/functions" "$scratch/starts"
import re, sys
scratch = sys.argv[1]
offset, address = next((int(w[1], 16), int(w[2], 16)) for w in map(str.split, open(scratch + "/segments")) if w[0:1] == ["LOAD"] and "E" in w[6:-1])
symbols = {int(at, 16) - address + offset: name for at, kind, name in (line.split() for line in open(scratch + "/nm") if len(line.split()) == 3)
           if kind in "tTwW"}
shown = [int(at, 16) for at in re.findall(r"program\+0x([0-9a-f]+)", open(scratch + "/functions").read())]
names = [symbols.get(at, "0x%x begins no function" % at) for at in shown]
print(*names, sep="\n")
assert set(shown) <= set(symbols), "a start is wrong"
assert len(shown) == len(set(shown)), "a function is two rows"
assert {"_start", "main", "print_stack", "_ZN4shop5outerEi"} <= set(names), "functions are missing"
END
    "$JESPAN_CMD" symbolize -o "$scratch/named" "$scratch/profile" 2> /dev/null || fail "starts: symbolize ends with $?"
    pprof -raw -symbolize=none "$scratch/named" > "$scratch/raw_named"
    ! grep -q 'program+0x' "$scratch/raw_named" || fail_with "a start is kept as a name" "$scratch/raw_named"
}

# Where lld puts code: a page farther from the start in memory than in the file. A script has GNU ld do the same. The debug file does not
# tell how far. This is for x86-64, whose default script is known.
test_lld() {
    [[ $(ld --version) == "GNU ld"* ]] || return 0
    local offset address
    [ "$(uname -m)" = x86_64 ] || return 0
    ld -pie -z separate-code --verbose | sed '1,/^=====/d; /^=====/,$d' > "$scratch/script"
    sed -i '0,/ALIGN(CONSTANT (MAXPAGESIZE));/s//. + CONSTANT (MAXPAGESIZE);/' "$scratch/script"
    build "$CXX" -pie -Wl,-z,separate-code -Wl,-T,"$scratch/script"
    readelf -lW "$scratch/program" > "$scratch/segments"
    read -r _ offset address _ < <(grep ' R E ' "$scratch/segments")
    ((offset % 4096 != 0 && address == offset + 4096)) || fail_with "the layout is not that of lld" "$scratch/segments"
    symbolize "as lld links"
    compare "as lld links" 22
    cp "$scratch/raw_named" "$scratch/raw_before"
    objcopy --only-keep-debug "$scratch/program" "$scratch/debug"
    mv "$scratch/debug" "$scratch/program"
    symbolize "the debug file of what lld linked"
    cmp -s "$scratch/raw_named" "$scratch/raw_before" || fail "the debug file of what lld linked gives other names than the program itself"
}

# with_id PATH ID: the profile's mapping of a file gets a build id
with_id() {
    { grep '^map ' "$scratch/lines"; echo "id $1 $2"; grep '^sample ' "$scratch/lines"; } |
        "$top_builddir/tests/support/make_stacks" > "$scratch/profile"
}

# A file that was replaced gives no names, and that is said once.
test_build_id() {
    local id other=0123456789abcdef0123456789abcdef01234567
    build "${compilers[0]}" -Wl,--build-id=sha1
    id=$(readelf -n "$scratch/program" | sed -n 's/.*Build ID: //p')
    with_id "$scratch/program" "$id"
    symbolize "the right build id"
    compare "the right build id" 22
    with_id "$scratch/program" $other
    "$JESPAN_CMD" symbolize -o "$scratch/named" "$scratch/profile" 2> "$scratch/err" || fail "another build id: status $?"
    equal "another build id" "$(cat "$scratch/err")" \
        "jespan: warning: $scratch/program has the build id $id, and the profile has $other: the file was replaced"
    pprof -raw -symbolize=none "$scratch/named" > "$scratch/raw_named"
    ! grep -q 'shop::outer' "$scratch/raw_named" || fail_with "another build id: names" "$scratch/raw_named"
    grep -q call_back "$scratch/raw_named" || fail_with "another build id: the library has no names" "$scratch/raw_named"
}

# ask_call PATH ID OFFSET: what the sidecar is told of a call, in $scratch/answer
ask_call() {
    python3 -c 'import struct, sys
path, build_id = (text.encode() for text in sys.argv[1:3])
sys.stdout.buffer.write(struct.pack("=QII", int(sys.argv[3], 16), len(path), len(build_id)) + path + build_id)' "$@" |
        "$JESPAN_CMD" symbolize --calls > "$scratch/answer" || fail "symbolize --calls ends with $?"
}

# The file may be replaced after the sidecar has looked at it. Then it has another build id.
test_call_build_id() {
    local id offset other=0123456789abcdef0123456789abcdef01234567
    $CC -g -O2 -shared -fPIC -Wl,--build-id=sha1 -o "$scratch/plugin.so" "$sources/symbols_library.c"
    id=$(readelf -n "$scratch/plugin.so" | sed -n 's/.*Build ID: //p')
    offset=$(nm "$scratch/plugin.so" | sed -n 's/ T call_back$//p')
    ask_call "$scratch/plugin.so" "$id" "$offset"
    grep -qa call_back "$scratch/answer" || fail "a call in a file with the right build id has no name"
    ask_call "$scratch/plugin.so" "" "$offset"
    grep -qa call_back "$scratch/answer" || fail "a call in a file without a build id has no name"
    ask_call "$scratch/plugin.so" $other "$offset"
    [ ! -s "$scratch/answer" ] || fail "a call in a file with another build id has a name"
}

test_builds
test_pprof
test_debuglink
test_starts
test_lld
test_build_id
test_call_build_id
finish
