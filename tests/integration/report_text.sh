#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report` prints what is documented, and survives any file.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

unset JESPAN_LIB
export TZ=UTC

expected_table() {
    cat << 'END'
 IN USE   SHARE  OBJECTS  ALLOCATED  CONTEXT
1.0 MiB   99.5%       50    3.0 MiB  request > parse {tenant=green, format=, route=/doc, tenant=blue}
4.0 KiB    0.4%        2    4.0 KiB  (jespan)
 1000 B    0.1%       10    1.5 KiB  (root)
  300 B    0.0%        3    9.8 KiB  request {route=/doc, tenant=blue}
   64 B    0.0%        1       64 B  request {route=/put, shard=7, request=4096, zero=0, below=-12}
    0 B    0.0%        0  120.6 KiB  (retired)
    0 B    0.0%        0   62.5 KiB  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}
1.0 MiB  100.0%       66    3.2 MiB  total of 7 contexts
END
}

test_report_table() {
    jespan report "$scratch/small"
    says "report" 0 ""
    equal "table" "$(tail -n +2 "$scratch/out")" "$(expected_table)"
    [[ $(head -n 1 "$scratch/out") == */make_profile"  2026-11-18 11:06:52 +0000  after 12.3 s" ]] ||
        fail_with "title" "$scratch/out"
    jespan report --top 2 --exact --sort alloc "$scratch/small"
    cp "$scratch/out" "$scratch/exact"
    jespan report --top 2 --bytes --sort alloc "$scratch/small"
    equal "--bytes" "$(cat "$scratch/out")" "$(cat "$scratch/exact")"
    equal "--top 2 --exact --sort alloc" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        " IN USE   SHARE  OBJECTS  ALLOCATED  CONTEXT" \
        "1048576   93.9%       50    3145728  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "      0    3.7%        0     123456  (retired)" \
        "   5460    2.4%       16      79660  (5 more)" \
        "1054036  100.0%       66    3348844  total of 7 contexts")"
    gzip -dc "$scratch/small" > "$scratch/plain.pb"
    jespan report "$scratch/plain.pb"
    equal "table of a plain file" "$(tail -n +2 "$scratch/out")" "$(expected_table)"
    jespan report "$scratch/empty"
    prints "a profile without samples" "*total of 0 contexts"
}

expected_times() {
    cat << 'END'
     CPU   SHARE      BUSY     WALL  OPENS     MEAN  CONTEXT
200.0 ms   69.8%  250.0 ms    3.0 s    100  30.0 ms  request {route=/doc, tenant=blue}
 80.0 ms   27.9%   90.0 ms  90.0 ms     60   1.5 ms  request > parse {tenant=green, format=, route=/doc, tenant=blue}
  5.0 ms    1.7%   1.1 min  1.1 min   1000  65.0 ms  (retired)
  1.5 ms    0.5%    12.0 s     0 ns      0           (root)
 15.5 µs    0.0%   15.5 µs  15.5 µs     20   775 ns  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}
  999 ns    0.0%     2.0 h     0 ns      0           thread:main
    0 ns    0.0%      0 ns     0 ns      1     0 ns  idle
286.5 ms  100.0%     2.0 h  1.1 min   1181           total of 7 contexts
END
}

test_report_times() {
    COLUMNS=200 jespan report "$scratch/times"
    says "report of times" 0 ""
    equal "times" "$(tail -n +2 "$scratch/out")" "$(expected_times)"
    jespan report --top 2 --exact --sort wall "$scratch/times"
    equal "times --top 2 --exact --sort wall" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        "      CPU   SHARE           BUSY         WALL  OPENS      MEAN  CONTEXT" \
        "  5000000   95.5%    64000000000  65000000000   1000  65000000  (retired)" \
        "200000000    4.4%      250000000   3000000000    100  30000000  request {route=/doc, tenant=blue}" \
        " 81516499    0.1%  7212090015500     90015500     81            (5 more)" \
        "286516499  100.0%  7276340015500  68090015500   1181            total of 7 contexts")"
}

# Two places in the code with the same name and parent are told apart; with different parents they are anyway.
test_report_twins() {
    jespan report "$scratch/twins"
    equal "table of names that repeat" "$(sed '1,2d; s/^.* B  //' "$scratch/out")" "$(printf '%s\n' \
        "sessions (src/table.c:40)" "sessions (src/table.c:97)" "sessions (src/table.c:40) > parse" \
        "sessions (src/table.c:97) > parse" "total of 4 contexts")"
    jespan report --inclusive "$scratch/twins"
    equal "the same, inclusive" "$(sed '1,2d; s/^.* B  //' "$scratch/out")" "$(printf '%s\n' \
        "sessions (src/table.c:40)" "sessions (src/table.c:97)" "sessions (src/table.c:40) > parse" \
        "sessions (src/table.c:97) > parse" "total of 4 contexts")"
}

# Each context with those below it, also one that has nothing of its own; opens stay its own.
test_report_inclusive() {
    COLUMNS=200 jespan report --inclusive --top 6 "$scratch/times"
    equal "times --inclusive" "$(tail -n +2 "$scratch/out")" "$(printf '%s\n' \
        "     CPU   SHARE      BUSY     WALL  OPENS     MEAN  CONTEXT" \
        "280.0 ms   97.7%  340.0 ms    3.1 s    100  30.9 ms  request {route=/doc, tenant=blue}" \
        " 80.0 ms   27.9%   90.0 ms  90.0 ms     60   1.5 ms  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "  5.0 ms    1.7%   1.1 min  1.1 min   1000  65.0 ms  (retired)" \
        "  1.5 ms    0.5%    12.0 s     0 ns      0           (root)" \
        " 15.5 µs    0.0%   15.5 µs  15.5 µs      0           request {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        " 15.5 µs    0.0%   15.5 µs  15.5 µs     20   775 ns  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        "                                                     (2 more)" \
        "286.5 ms  100.0%     2.0 h  1.1 min   1181           total of 8 contexts")"
    jespan report --inclusive --exact "$scratch/small"
    equal "--inclusive" "$(grep request "$scratch/out")" "$(printf '%s\n' \
        "1048876   99.5%       53    3155728  request {route=/doc, tenant=blue}" \
        "1048576   99.5%       50    3145728  request > parse {tenant=green, format=, route=/doc, tenant=blue}" \
        "     64    0.0%        1      64064  request {route=/put, shard=7, request=4096, zero=0, below=-12}" \
        "      0    0.0%        0      64000  request > parse {route=/put, shard=7, request=4096, zero=0, below=-12}")"
}

# A tree of 30,000 contexts, where each is the parent of 8 and has a label of its own: sums made without it, by number.
# Row i is called span and i % 1000, and holds 16 i bytes.
test_report_inclusive_tree() {
    COLUMNS=1000 jespan report --inclusive --exact "$scratch/many"
    sed -n 's/^ *\([0-9]*\) .*span\([0-9]*\) {.*/\2 \1/p' "$scratch/out" | sort -n -k1,1 -k2,2 > "$scratch/actual"
    awk 'BEGIN {
        for (i = 29999; i > 0; i--) { sum[i] += 16 * i; if (i > 8) sum[int((i - 1) / 8)] += sum[i] }
        for (i = 1; i < 30000; i++) print i % 1000, sum[i]
    }' | sort -n -k1,1 -k2,2 > "$scratch/expected"
    equal "number of contexts" "$(wc -l < "$scratch/actual")" 29999
    cmp -s "$scratch/actual" "$scratch/expected" || fail_with "a tree with --inclusive" "$scratch/actual" "$scratch/expected"
}

# Paths that were cut have no common beginning: each frame of each is a context.
test_report_inclusive_deep() {
    jespan report --inclusive "$scratch/hostile"
    says "hostile --inclusive" 0 ""
    local option
    for option in --inclusive --tree --svg; do
        jespan report "$option" "$scratch/deep"
        says "deep $option" 2 "jespan: *deep: too many contexts for $option"
        prints "deep $option" ""
    done
    jespan report --svg --inclusive "$scratch/deep"
    says "deep --svg --inclusive" 2 "jespan: *deep: too many contexts for --svg"
}

# Lines of at most so many columns, control characters only at their ends
test_report_width() {
    local columns file width
    for columns in 60 80 133 1000; do
        for file in small hostile deep; do
            COLUMNS=$columns jespan report "$scratch/$file"
            says "$file at $columns" 0 ""
            width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
            [ "$width" -le "$columns" ] || fail_with "$file at $columns is $width wide" "$scratch/out"
            ! grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$scratch/out" || fail "$file at $columns has control characters"
        done
        COLUMNS=$columns jespan report "$scratch/times"
        width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
        [ "$width" -le $((columns + 1)) ] || fail_with "times at $columns is $width wide" "$scratch/out"
    done
    for columns in -5 x ""; do
        COLUMNS=$columns jespan report "$scratch/deep"
        width=$(LC_ALL=C.UTF-8 wc -L < "$scratch/out")
        [ "$width" -le 120 ] || fail_with "COLUMNS='$columns': $width wide" "$scratch/out"
    done
}

# The heading is bold on a terminal that can show it, unless NO_COLOR is set. The terminal has 70 columns.
test_report_terminal() {
    local variables
    have script || return 0
    for variables in TERM=xterm TERM=dumb TERM= "TERM=xterm NO_COLOR=1" "-u TERM"; do
        # shellcheck disable=SC2086
        env $variables script -qec "stty cols 70; '$JESPAN_CMD' report --no-pager '$scratch/deep'" /dev/null < /dev/null > "$scratch/out"
        equal "$variables: bold lines" "$(grep -c $'\x1b\\[1m' "$scratch/out")" "$([ "$variables" = TERM=xterm ] && echo 1 || echo 0)"
        [ "$(tr -d '\r' < "$scratch/out" | sed $'s/\x1b[^m]*m//g' | LC_ALL=C.UTF-8 wc -L)" -le 70 ] || fail_with "$variables: too wide" "$scratch/out"
    done
}

# Too little memory is no fault of the file.
test_report_no_memory() {
    ( # "tiny" is of test_report_bad_files
        ulimit -v 150000
        jespan report "$scratch/tiny"
        says "no memory" 2 "jespan: *tiny: out of memory"
        [ "$failures" = 0 ]
    ) || fail "no memory"
}

test_report_bad_files() {
    jespan report "$scratch/none"
    says "no file" 2 "jespan: *none: No such file or directory"
    mkdir "$scratch/nothing"
    jespan report "$scratch/nothing"
    says "a directory" 2 "jespan: *nothing: there is no dump in the directory"
    : > "$scratch/zero"
    jespan report "$scratch/zero"
    says "an empty file" 2 "jespan: *zero: the file is empty"
    jespan report "$0"
    says "a script" 2 "jespan: *: not a pprof profile"
    head -c 200 "$scratch/small" > "$scratch/half"
    jespan report "$scratch/half"
    says "a truncated file" 2 "jespan: *half: the file is truncated"
    head -c 100 "$scratch/plain.pb" > "$scratch/half.pb"
    jespan report "$scratch/half.pb"
    says "a truncated plain file" 2 "jespan: *half.pb: not a pprof profile"
    printf '\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f' > "$scratch/long"
    jespan report "$scratch/long"
    says "a huge length" 2 "jespan: *long: not a pprof profile"
    cp "$scratch/many" "$scratch/damaged"
    printf 'damaged' | dd of="$scratch/damaged" bs=1 seek=50000 conv=notrunc status=none
    jespan report "$scratch/damaged"
    says "a damaged file" 2 "jespan: *damaged: the gzip data is damaged"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x03cpu' > "$scratch/cpu"
    jespan report "$scratch/cpu"
    says "a CPU profile" 2 "jespan: *cpu: neither a heap profile nor a time profile*"
    cat "$scratch/small" "$scratch/small" > "$scratch/joined"
    jespan report "$scratch/joined"
    says "two files in one" 2 "jespan: *joined: not a pprof profile"
    # a sample that is no sample, references to nothing, and a text where a number should be
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x12\x02\x0a\x7f' > "$scratch/sample"
    jespan report "$scratch/sample"
    says "a damaged sample" 2 "jespan: *sample: not a pprof profile"
    jespan report --inclusive "$scratch/sample"
    says "a damaged sample, --inclusive" 2 "jespan: *sample: not a pprof profile"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x12\x0d\x0a\x02\x07\x08\x12\x01\x05\x1a\x04\x08\x63\x10\x63' > "$scratch/nowhere"
    jespan report "$scratch/nowhere"
    says "references to nothing" 0 ""
    prints "references to nothing" "*5 B *0x0 > 0x0 {=}*"
    printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space\x4a\x01x' > "$scratch/text"
    jespan report "$scratch/text"
    says "a text for a number" 2 "jespan: *text: not a pprof profile"
    # a file of 145 KiB with 17 million empty samples, each of which takes much more memory than its bytes
    {
        printf '\x0a\x02\x08\x01\x32\x00\x32\x0binuse_space'
        head -c 34000000 <(yes $'\x12' | tr '\n' '\0')
    } | gzip -1 > "$scratch/tiny"
    jespan report "$scratch/tiny"
    says "millions of empty samples" 2 "jespan: *tiny: too many samples, functions or strings"
    jespan report /dev/zero
    says "an endless file" 2 "jespan: /dev/zero: more than 1 GiB unpacked"
}

"$make_profile" time small > "$scratch/times"
"$make_profile" small > "$scratch/small"
"$make_profile" twins > "$scratch/twins"
"$make_profile" hostile > "$scratch/hostile"
"$make_profile" empty > "$scratch/empty"
"$make_profile" chain 3000 > "$scratch/deep"
"$make_profile" rows 30000 > "$scratch/many"
test_report_table
test_report_times
test_report_twins
test_report_inclusive
test_report_inclusive_tree
test_report_inclusive_deep
test_report_width
test_report_terminal
test_report_bad_files
test_report_no_memory
finish
