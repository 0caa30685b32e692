#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The state file: what a killed program last held, against a model; forks; files that are in the way, hostile, or too small.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

need python3
program=$scratch/state_file_program
compile "$program" tests/integration/state_file_program.c -ldl
export XDG_RUNTIME_DIR=$scratch
cd "$scratch"

# killed COMMAND… : until it is killed, or has ended; keeps its stderr
killed() {
    { "$@" 2> said || true; } 2> /dev/null
}

# begin COMMAND… : in the background, until it says "ready"; its number is in $pid
begin() {
    rm -f words
    mkfifo words
    "$@" > words 2> said &
    pids+=("$!")
    read -r _ pid < words
}

end() {
    kill -9 "$pid"
    wait "$pid" 2> /dev/null || true
}

# objects FILE CONTEXT: objects in use
objects() {
    jespan report --csv "$1"
    [ "$status" = 0 ] || fail_with "$1 cannot be read" err
    CONTEXT=$2 awk -F '"' '$2 == ENVIRON["CONTEXT"] { split($1, figure, ","); print figure[3] }' out
}

# ---- Against a model ----

cat > compare.py << 'END_OF_PYTHON'
import csv
import struct
import sys

KINDS, THREADS, BYTES, BUFFER = 48, 16, 1024, 32
threads = int(sys.argv[2])
words = struct.unpack("<%dQ" % (THREADS * (4 * KINDS + 2)), open(sys.argv[1], "rb").read())
rows = {row["context"]: row for row in csv.DictReader(sys.stdin)}


def total(first, kind):
    """The sum over threads: what was begun, and what was done."""
    each = 4 * KINDS + 2
    places = [t * each + first + 2 * kind for t in range(THREADS)]
    return sum(words[i] for i in places), sum(words[i + 1] for i in places)


waiting = begun_all = done_all = most = 0
for kind in range(KINDS):
    row = rows.get("kind {number=%d}" % kind, {"inuse_objects": 0, "inuse_bytes": 0})
    allocated, freed = total(0, kind), total(2 * KINDS, kind)
    held = int(row["inuse_objects"])
    assert held * BYTES == int(row["inuse_bytes"]) or threads > 1, row
    assert held >= allocated[1] - freed[0], (kind, held, allocated, freed)
    waiting += max(0, held - (allocated[0] - freed[1]))
    most = max(most, allocated[0])
    begun_all += allocated[0]
    done_all += allocated[1]
assert waiting <= BUFFER * threads, waiting
passing = total(4 * KINDS, 0)
bytes_all = sum(int(row["alloc_bytes"]) for name, row in rows.items() if not name.startswith(("thread:", "(jespan)", "(root)")))
assert bytes_all <= BYTES * (begun_all + passing[0]), (bytes_all, begun_all, passing)
assert bytes_all >= BYTES * (done_all + passing[1] - most), (bytes_all, done_all, passing)
END_OF_PYTHON

test_model() {
    local threads operations
    for round in $(seq 12); do
        threads=$((round % 2 ? 1 : 4)) operations=$((RANDOM % 8000 + 1))
        rm -f state
        JESPAN_CONF=state_file:state,contexts_kept:64 killed "$program" model model.bin "$threads" "$operations"
        [ ! -s said ] || fail_with "the program says something" said
        jespan report --csv state
        [ "$status" = 0 ] || fail_with "round $round" err
        python3 compare.py model.bin "$threads" < out 2> err || fail_with "round $round: $threads threads, $operations operations" err out
    done
}

# While the program waits, the file is as the process.
test_same() {
    JESPAN_CONF=state_file:same.%p,stacks:all begin "$program" hold 300
    equal "the mode" "$(stat -c %a "same.$pid")" 600
    jespan report --csv "$pid"
    cp out process
    jespan report --csv "same.$pid"
    cmp process out || fail_with "the file is not as the process" process out
    [ ! -e "/proc/$pid/fd/3" ] || fail "a descriptor is left: $(ls -l "/proc/$pid/fd")"
    end
    jespan report --csv "same.$pid"
    cmp process out || fail_with "the file is not as the process was" process out
    jespan leaks "same.$pid"
    grep -q '^        hold  state_file_program.c:' out || fail_with "the line" out err
    jespan report "same.$pid"
    grep -q "^$(realpath "$program")  20" out || fail_with "the name" out
}

# A library that is loaded later has its lines too.
test_library() {
    printf '#include <stdlib.h>\nvoid *allocate_in_library(int n);\nvoid *allocate_in_library(int n)\n{\n    void *p = malloc(1000 + (unsigned)n %% 2);\n    return p;\n}\n' > library.c
    # shellcheck disable=SC2086
    $CC -g -fPIC -shared -o library.so library.c
    JESPAN_CONF=state_file:library.%p,stacks:all begin "$program" load ./library.so 50
    end
    jespan leaks "library.$pid"
    grep -q '^        allocate_in_library  library.c:5$' out || fail_with "the line in the library" out err
}

# Code in more mappings than the file has room for, and in one that cannot be read.
test_code() {
    JESPAN_CONF=state_file:code.%p,stacks:all begin "$program" code ./library.so 50 5000
    equal "what it said" "$(cat said)" ""
    end
    jespan report "code.$pid"
    equal "the report" "$status $(cat err)" "0 "
}

# ---- The life of a process ----

test_ends() {
    JESPAN_CONF=state_file:exit "$program" exit 10
    [ ! -e exit ] || fail "the file is there after exit()"
    JESPAN_CONF=state_file:quit "$program" quit 10
    equal "after _exit()" "$(objects quit 'held {by=parent}')" 10
    JESPAN_CONF=state_file:quit "$program" quit 20
    equal "another process takes its place" "$(objects quit 'held {by=parent}')" 20
    JESPAN_CONF=state_file:exec.%p "$program" exec 10 /bin/true
    equal "it has executed a program without jespan" "$(objects exec.* 'held {by=parent}')" 10
    JESPAN_CONF=state_file:again.%p "$program" exec 10 "$program" quit 30
    equal "it has executed itself" "$(objects again.* 'held {by=parent}')" 30
    JESPAN_CONF=state_file:only,only_programs:another "$program" quit 10
    [ ! -e only ] || fail "a program that is left out has a state file"
}

# A child counts for itself from the beginning, whatever its parent does.
test_children() {
    local child
    rm -f words
    mkfifo words
    JESPAN_CONF=state_file:fork killed "$program" fork 102 200 > words &
    read -r _ child < words
    pids+=("$child")
    wait $!
    equal "the parent" "$(objects fork 'held {by=parent}')" 103
    equal "the child is not in the parent's file" "$(objects fork 'held {by=child}')" ""
    equal "the child" "$(objects "$child" 'held {by=parent}')" 302
    equal "the child's own span" "$(objects "$child" 'held {by=child}')" 200
    ! grep -q "$scratch/fork\$" "/proc/$child/maps" || fail "the child maps its parent's file"
    kill -9 "$child"
    JESPAN_CONF=state_file:vfork begin "$program" vfork 100
    equal "after vfork()" "$(objects vfork 'held {by=parent}')" 100
    end
}

# No fork handler runs here. The child counts for its parent until it first looks, which is soon; and it damages nothing.
test_clone() {
    local child
    rm -f words
    mkfifo words
    JESPAN_CONF=state_file:clone killed "$program" clone 100 20000 > words &
    read -r _ child < words
    pids+=("$child")
    wait $!
    n=$(objects clone 'held {by=parent}')
    [ "$n" -ge 101 ] && [ "$n" -le 1000 ] || fail "the parent of clone() has $n objects"
    equal "the child of clone()" "$(objects "$child" 'held {by=child}')" 20000
    ! grep -q "$scratch/clone\$" "/proc/$child/maps" || fail "the child of clone() maps its parent's file"
    kill -9 "$child"
}

test_sidecar() {
    JESPAN_LIB=$JESPAN_LIB killed "$JESPAN_CMD" run --quiet --dump-dir dumps --conf state_file:side.%p -- "$program" model model.bin 1 5000
    await compgen -G 'dumps/heap.*.killed.pb.gz' || fail "no dump: $(ls dumps)"
    dump=$(echo dumps/heap.*.killed.pb.gz)
    jespan report --csv "$dump"
    python3 compare.py model.bin 1 < out 2> err || fail_with "the sidecar's dump" err out
    zcat "$dump" > text
    grep -aq 'read from the state file after the process was killed by signal 9' text || fail "the note is missing"
}

# ---- What is in the way ----

# refused WHAT CONF MESSAGE: the program runs all the same
refused() {
    JESPAN_CONF=$2 killed "$program" exit 1
    equal "$1" "$(cat said)" "$3"
}

test_in_the_way() {
    echo precious > file
    refused "a file" state_file:file "jespan: state_file: '$PWD/file' cannot be made: there is another file"
    equal "its content" "$(cat file)" precious
    ln -s file link
    refused "a link" state_file:link "jespan: state_file: '$PWD/link' cannot be made: there is another file"
    ln -s nowhere dangling
    refused "a link to nothing" state_file:dangling "jespan: state_file: '$PWD/dangling' cannot be made: there is another file"
    [ ! -e nowhere ] || fail "the link was followed"
    mkfifo pipe
    refused "a pipe" state_file:pipe "jespan: state_file: '$PWD/pipe' cannot be made: there is another file"
    refused "no directory" state_file:none/file "jespan: state_file: '$PWD/none/file' cannot be made: No such file or directory"
    refused "a wrong %" state_file:%q "jespan: state_file: '$PWD/%q' cannot be made: %p is the only % that it may have"
    JESPAN_CONF=state_file:busy begin "$program" hold 7
    refused "a process that lives" state_file:busy ""
    equal "its file" "$(objects busy 'held {by=parent}')" 7
    end
    : > empty
    refused "a file that another process has just made" state_file:empty ""
    [ ! -s empty ] || fail "the file of a process that begins was taken"
    touch -d '1 hour ago' empty
    JESPAN_CONF=state_file:empty begin "$program" hold 7
    equal "an empty file that is old" "$(objects empty 'held {by=parent}')" 7
    end
}

# One of them has the file, and nobody says anything.
test_at_once() {
    for _ in $(seq 30); do
        for _ in 1 2 3; do
            JESPAN_CONF=state_file:at_once LD_PRELOAD=$JESPAN_LIB /bin/true 2>> at_once.said &
        done
        wait
    done
    [ ! -s at_once.said ] || fail_with "of processes that start at once, one complains" at_once.said
}

# Where there is no room, the program goes on, and the file says so.
test_no_room() {
    (
        ulimit -f 1000
        refused "file sizes" state_file:limited "jespan: state_file: '$PWD/limited' cannot be made: the limit of file sizes is too low (ulimit -f)"
        finish
    ) || fail "with little room for files"
    (
        ulimit -f 0
        equal "no file at all" "$(JESPAN_CONF=state_file:none_at_all LD_PRELOAD=$JESPAN_LIB /bin/true 2>&1 | cat)" \
            "jespan: state_file: '$PWD/none_at_all' cannot be made: the limit of file sizes is too low (ulimit -f)"
        finish
    ) || fail "with no room for files"
    (
        ulimit -f 16384
        JESPAN_CONF=state_file:limited begin "$program" wide 6000 12
        equal "the message" "$(cat said)" "jespan: state_file: no more room in $PWD/limited; figures in it are incomplete from now on"
        end
        jespan report limited
        equal "the command" "$status $(cat err)" "0 jespan: warning: limited had no room for all figures; it is incomplete"
        finish
    ) || fail "with 16 MiB"
    unshare -rm true 2> /dev/null || return 0
    mkdir -p disk
    cat > full.sh << 'END_OF_SCRIPT'
mount -t tmpfs -o size=3m tmpfs disk || exit 77
JESPAN_CONF=state_file:disk/full "$1" wide 3000 4 > words 2> said &
read -r _ pid < words
"$2" report disk/full > out 2> err
kill -9 $pid
JESPAN_CONF=state_file:disk/full "$1" exit 3 2> said.again
dd if=/dev/zero of=disk/zero bs=4096 2> /dev/null
JESPAN_CONF=state_file:disk/more "$1" exit 3 2> said.more
umount disk
mount -t tmpfs -o size=1m tmpfs disk || exit 77
JESPAN_CONF=state_file:disk/little "$1" wide 3 1 > words.little 2> said.little &
while [ ! -s words.little ]; do sleep 0.05; done
"$2" report disk/little 2> err.little
echo $? > status.little
kill -9 $!
END_OF_SCRIPT
    local status=0
    unshare -rm sh full.sh "$program" "$JESPAN_CMD" || status=$?
    [ "$status" != 77 ] || return 0
    equal "a full disk: the status" "$status" 0
    equal "a full disk: the message" "$(cat said)" "jespan: state_file: no more room in $PWD/disk/full; figures in it are incomplete from now on"
    equal "a full disk: the command" "$(cat err)" "jespan: warning: disk/full had no room for all figures; it is incomplete"
    equal "a full disk: once more" "$(cat said.again)" ""
    equal "a little disk: the message" "$(cat said.little)" "jespan: state_file: no more room in $PWD/disk/little; figures in it are incomplete from now on"
    equal "a little disk: the command" "$(cat status.little err.little)" "2
jespan: disk/little: this state file had no room for all figures, and what it has is too little to be read"
    equal "a full disk from the beginning" "$(cat said.more)" "jespan: state_file: '$PWD/disk/more' cannot be made: No space left on device"
}

# ---- Hostile files ----

cat > damage.py << 'END_OF_PYTHON'
import random
import sys

dice = random.Random(int(sys.argv[1]))
data = bytearray(open(sys.argv[2], "rb").read(3 << 20))
ranges = [(18, 4000), (0x8c000, 0x8d000), (0x8d000, len(data))]
for _ in range(dice.choice([1, 3, 10, 100, 10000])):
    data[dice.randrange(*dice.choice(ranges))] = dice.choice([0, 1, 255, 0x7F, 0x80, dice.randrange(256)])
with open(sys.argv[3], "wb") as out:
    out.write(data)
    out.truncate(1 << 30)
END_OF_PYTHON

test_hostile() {
    JESPAN_CONF=state_file:quit,stacks:all "$program" quit 10
    for bytes in 0 10 64 500 20000 1000000; do
        head -c "$bytes" quit > "cut"
        jespan report "cut"
        [ "$status" = 2 ] && [ -s err ] || fail_with "cut off after $bytes bytes: status $status" err
    done
    for seed in $(seq 25); do
        python3 damage.py "$seed" quit damaged
        jespan report --csv damaged
        case $status in
        0 | 2) ;;
        *) fail_with "damage $seed: status $status" err ;;
        esac
    done
}

for test in model same library code ends children clone sidecar in_the_way at_once no_room hostile; do
    [ $# -gt 0 ] && [ "$test" != "$1" ] || "test_$test"
done
finish
