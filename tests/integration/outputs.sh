#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Files that commands write: whole or not at all, in place where they must be, and refused before a program starts.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

unset JESPAN_LIB

# A file that cannot be written to its end is not there, or is the one of before.
test_whole_files() {
    local words
    mkdir "$scratch/whole" "$scratch/whole/there"
    "$make_profile" rows 3000 > "$scratch/whole/rows"
    echo before > "$scratch/whole/there/file"
    ln -s there/file "$scratch/whole/link"
    for words in "html $scratch/whole/rows" "symbolize $scratch/whole/rows"; do
        for file in new there/file link; do
            status=0
            # shellcheck disable=SC2086
            (trap '' XFSZ; ulimit -f 1; exec "$JESPAN_CMD" $words -o "$scratch/whole/$file") > "$scratch/out" 2> "$scratch/err" || status=$?
            says "$words: $file" 1 "jespan: *whole/$file: File too large"
        done
        equal "$words: files" "$(find "$scratch/whole" -type f -printf '%P\n' | sort | paste -sd' ')" "rows there/file"
        equal "$words: the file of before" "$(cat "$scratch/whole/there/file")" before
    done
    chmod 600 "$scratch/whole/there/file"
    jespan html -o "$scratch/whole/link" "$scratch/whole/rows"
    says "html through a link" 0 ""
    [ -L "$scratch/whole/link" ] || fail "html through a link: the link is gone"
    equal "html through a link: mode" "$(stat -c %a "$scratch/whole/there/file")" 600
    grep -q '</html>' "$scratch/whole/link" || fail "html through a link: no page"
    (umask 027; jespan html -o "$scratch/whole/new" "$scratch/whole/rows")
    equal "html: mode" "$(stat -c %a "$scratch/whole/new")" 640
}

# What can be read only once makes the same page as a file of that name.
test_html_of_pipes() {
    local page
    page=$("$JESPAN_CMD" html -o - /dev/fd/9 9< "$scratch/small" | md5sum)
    equal "html of a pipe" "$("$JESPAN_CMD" html -o - /dev/fd/9 9< <(cat "$scratch/small") | md5sum)" "$page"
    page=$("$JESPAN_CMD" html -o - - < <(cat "$scratch/small")) || true
    [[ $page == *'</html>'* ]] || fail "html of standard input: no page"
    equal "html of standard input that is a file" "$("$JESPAN_CMD" html -o - - < "$scratch/small" | md5sum)" "$(md5sum <<< "$page")"
    jespan html -o - - - < "$scratch/small"
    says "html of standard input, twice" 2 "jespan: -: the file is empty"
}

# A file that is more than a name is written in place, and never replaced.
test_outputs_in_place() {
    local page name words
    directory=$scratch/in_place
    mkdir "$directory"
    cd "$directory"
    cp "$scratch/small" dump
    "$JESPAN_CMD" html -o page dump
    page=$(md5sum < page)
    for name in /dev/stdout /dev/fd/1 /proc/self/fd/1 out; do
        (echo a; "$JESPAN_CMD" html -o $name dump; echo b) > out
        equal "-o $name: first and last line" "$(sed -n '1p;$p' out | paste -sd' ')" "a b"
        equal "-o $name: the page" "$(sed '1d;$d' out | md5sum)" "$page"
        echo before > log
        [ $name = out ] || "$JESPAN_CMD" html -o $name dump >> log
        [ $name = out ] || equal "-o $name >> log" "$(head -n 1 log) $(tail -n +2 log | md5sum)" "before $page"
    done
    (echo a; "$JESPAN_CMD" html -o /dev/stderr dump; echo b >&2) 2> out > /dev/null
    equal "-o /dev/stderr: last line" "$(tail -n 1 out)" b
    (echo a >&3; "$JESPAN_CMD" html -o /dev/fd/3 dump; echo b >&3) 3> out
    equal "-o /dev/fd/3: first and last line" "$(sed -n '1p;$p' out | paste -sd' ')" "a b"
    echo before > linked
    ln linked other
    jespan html -o linked dump
    equal "a file with two names" "$(md5sum < other)" "$page"
    name=$(printf '%0255d' 0)
    jespan html -o "$name" dump
    says "a name of 255 bytes" 0 ""
    equal "a name of 255 bytes" "$(md5sum < "$name")" "$page"
    ln -s none/x dangling
    ln -s loop loop
    for words in "html dump" "symbolize dump"; do
        # shellcheck disable=SC2086
        jespan $words -o dangling
        says "$words to a link to nowhere" 1 "jespan: dangling: No such file or directory"
        # shellcheck disable=SC2086
        jespan $words -o loop
        says "$words to a loop of links" 1 "jespan: loop: Too many levels of symbolic links"
        # shellcheck disable=SC2086
        jespan $words -o ''
        says "$words without a name" 2 "jespan: --output: the name is empty"
    done
    [ -L dangling ] && [ -L loop ] || fail "a link was replaced"
    gzip -k dump
    cp dump.gz kept.gz
    jespan html -o dump.gz dump
    says "a dump as the page" 2 "jespan: dump.gz: is a dump and would be lost; --output needs the name of a page"
    jespan html -o dump dump dump.gz
    says "the first dump as the page" 2 "jespan: dump: is a dump and would be lost; *"
    cmp -s dump "$scratch/small" && cmp -s dump.gz kept.gz || fail "a dump was replaced"
    equal "files that are left" "$(find . -name '*.??????' ! -name '*.gz')" ""
    cd - > /dev/null
}

# Another user's file, and directories that permit no other.
test_outputs_of_others() {
    local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) directory
    directory=$(mktemp -d "${TMPDIR:-/tmp}/jespan-test.XXXXXX")
    chmod 755 "$directory" && cp "$JESPAN_CMD" "$directory/jespan" && cp "$scratch/small" "$directory/dump"
    if "${user[@]}" "$directory/jespan" --version > /dev/null 2>&1; then
        mkdir "$directory/closed" "$directory/sticky"
        chmod 1777 "$directory/sticky"
        for name in closed/mine sticky/theirs closed/old; do
            echo before > "$directory/$name"
            chmod 666 "$directory/$name"
        done
        chown 65534 "$directory/closed/mine"
        ! "${user[@]}" "$directory/jespan" html -o "$directory/closed/new" "$directory/dump" 2> "$scratch/err" ||
            fail "a page in a closed directory"
        for name in closed/mine sticky/theirs; do
            "${user[@]}" "$directory/jespan" html -o "$directory/$name" "$directory/dump" 2> "$scratch/err" ||
                fail_with "html -o $name" "$scratch/err"
            grep -q '</html>' "$directory/$name" || fail "html -o $name: no page"
        done
        equal "the owner of another's file" "$(stat -c %u "$directory/sticky/theirs")" "$(id -u)"
        chown 65534 "$directory/closed/old"
        jespan html -o "$directory/closed/old" "$directory/dump"
        equal "the owner of another's file, by root" "$(stat -c %u "$directory/closed/old")" 65534
        chmod 444 "$directory/closed/mine"
        ! "${user[@]}" "$directory/jespan" html -o "$directory/closed/mine" "$directory/dump" 2> "$scratch/err" ||
            fail "a page over a file that is only to be read"
    fi
    rm -rf "$directory"
}

# A signal leaves no part of a file. It comes where the file would get its name.
test_outputs_signals() {
    local signal name file=$scratch/signals
    ! grep -q '__[at]san_init' < <(nm "$JESPAN_CMD" 2> /dev/null) || return 0
    printf '#include <signal.h>\n#include <stdlib.h>\nint rename(const char *a, const char *b) { (void)a, (void)b; raise(atoi(getenv("RAISED"))); return -1; }\n' > "$scratch/rename.c"
    $CC -shared -fPIC -o "$scratch/rename.so" "$scratch/rename.c"
    mkdir "$file"
    echo before > "$file/page"
    for signal in 1 2 15; do
        status=0
        { (RAISED=$signal LD_PRELOAD=$scratch/rename.so exec "$JESPAN_CMD" html -o "$file/page" "$scratch/small") || status=$?; } 2> /dev/null
        equal "signal $signal: status" "$status" $((128 + signal))
        equal "signal $signal: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
    done
    # SIGKILL: where a file can be written before it has a name
    if have python3 && python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY)' "$file" 2> /dev/null; then
        printf '#include <signal.h>\nint linkat(int a, const char *b, int c, const char *d, int e) { (void)a, (void)b, (void)c, (void)d, (void)e; raise(SIGKILL); return -1; }\n' > "$scratch/link.c"
        $CC -shared -fPIC -o "$scratch/link.so" "$scratch/link.c"
        for name in page new; do
            status=0
            { (LD_PRELOAD=$scratch/link.so exec "$JESPAN_CMD" html -o "$file/$name" "$scratch/small") || status=$?; } 2> /dev/null
            equal "SIGKILL, $name: status" "$status" 137
            equal "SIGKILL, $name: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
        done
    fi
    status=0
    (ulimit -f 1; exec "$JESPAN_CMD" html -o "$file/page" "$scratch/small") 2> "$scratch/err" || status=$?
    says "a file that becomes too large" 1 "jespan: *page: File too large"
    equal "a file that becomes too large: files" "$(echo "$file"/*) $(cat "$file/page")" "$file/page before"
}

# A file that cannot be written is refused before the program starts, and none is made.
test_outputs() {
    local option path said words directory=$scratch/outputs
    local -A wrong=([none/x]="No such file or directory" [.]="Is a directory" [new/]="Is a directory" [plain/x]="Not a directory")
    mkdir "$directory"
    cd "$directory"
    echo kept > plain
    for option in --flame --flame-events --flame-svg --trace; do
        for path in "${!wrong[@]}"; do
            jespan run $option "$path" -- touch started
            says "$option $path" 125 "jespan: $option: cannot write '$path': ${wrong[$path]}"
        done
        jespan run $option - -- touch started
        says "$option -" 2 "jespan: $option: '-' is not possible, since standard output belongs to PROGRAM; './-' is a file of that name"
        for path in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
            jespan run $option $path -- touch started
            says "$option $path" 2 "jespan: $option: '$path' is not possible, since standard output belongs to PROGRAM"
        done
        equal "files after wrong $option" "$(echo ./*)" ./plain
        said=
        [ $option != --flame-events ] || said="jespan: $directory/*: no span of true was seen, so the file is empty"
        echo kept > plain
        jespan run $option plain -- true
        says "$option of a file that is there" 0 "${said/is empty/stays as it was}"
        [ -z "$said" ] || equal "$option of a file that is there" "$(cat plain)" kept
        jespan run $option ./- -- true
        says "$option ./-" 0 "$said"
        [ -e ./- ] || fail "$option ./- is not written"
        rm -f ./-
        jespan run --quiet $option new/file --dump-dir new --interval 0 -- true
        says "$option in a new directory of dumps" 0 "$said"
        equal "files of $option in a new directory of dumps" "$(echo new/* | sed 's/[0-9]\{2,\}/N/')" "new/file new/heap.N.1.pb.gz"
        rm -r new
        jespan run $option none/x --interval 5 -- touch started
        says "$option none/x and dumps" 125 "jespan: $option: cannot write 'none/x': No such file or directory"
        equal "files after wrong $option and dumps" "$(echo ./*)" ./plain
    done
    mkdir below
    ln -s below link
    ln -s a to_a
    ln -s "$directory/to_a" below/to_a
    ln -s none/x dangling
    ln -s loop loop
    jespan run --flame dangling -- touch started
    says "--flame of a link to nowhere" 125 "jespan: --flame: cannot write 'dangling': No such file or directory"
    jespan run --flame loop -- touch started
    says "--flame of a loop of links" 125 "jespan: --flame: cannot write 'loop': Too many levels of symbolic links"
    for words in "--flame a --flame-events a" "--flame a --flame-events to_a" "--flame-events to_a --trace a" "--flame to_a --trace link/to_a" "--flame-svg a --trace ./a" "--flame below/a --trace link/a" "--flame-svg plain --flame below/../plain"; do
        # shellcheck disable=SC2086
        jespan run $words -- touch started
        # shellcheck disable=SC2086
        set -- $words
        case $words in --flame-svg\ plain*) set -- "$3" "$4" "$1" "$2" ;; esac
        says "one file: $words" 2 "jespan: $1 and $3 name the same file, '$4'"
    done
    rm -r below link to_a dangling loop
    jespan run --flame-svg /dev/null --trace /dev/null --flame a --flame-events b -- true
    says "two outputs to a device" 0 "jespan: $directory/b: no span of true was seen, so the file is empty"
    jespan check --no-outlived --junit a --markdown ./a -- touch started
    says "check with one file" 2 "jespan: --junit and --markdown name the same file, './a'"
    rm -f a b
    jespan run --dump-dir - -- touch started
    says "--dump-dir -" 2 "jespan: --dump-dir: '-' is not possible, since standard output belongs to PROGRAM; './-' is a file of that name"
    for option in --junit --markdown; do
        jespan check --no-outlived $option none/x -- touch started
        says "check $option none/x" 125 "jespan: $option: cannot write 'none/x': No such file or directory"
        jespan check --no-outlived $option - -- touch started
        says "check $option -" 2 "jespan: $option: '-' is not possible, *"
    done
    [ ! -e started ] || fail "the program was started"
    cd - > /dev/null
}

"$make_profile" small > "$scratch/small"
test_whole_files
test_html_of_pipes
test_outputs_in_place
test_outputs_of_others
test_outputs_signals
test_outputs
finish
