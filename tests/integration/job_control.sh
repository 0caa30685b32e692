#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Job control of an interactive bash: a program under `jespan run` stops, continues and ends as it does without. ^Z as process 1.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
have python3 || skip "no python3"
program=$scratch/sidecar_program
compile "$program" tests/integration/sidecar_program.c
cd "$scratch"

cat > jobs.py << 'END'
"""Types at an interactive bash on a terminal of its own, and prints what it says. {} is the program, with `prefix`."""
import os, pty, re, select, signal, sys

prefix, program = sys.argv[1:]
PROMPT = rb"READY> $"
STEPS = [ # what is typed; after what in the output the next step follows
    ("{} say wait\n", rb"\n\d+\r\n"), ("\x03", PROMPT), ("echo status=$?\n", PROMPT),
    ("{} say wait\n", rb"\n\d+\r\n"), ("\x1c", PROMPT), ("echo status=$?\n", PROMPT),
    ("{} say wait status 7\n", rb"\n\d+\r\n"), ("\x1a", PROMPT), ("echo status=$?\n", PROMPT), ("jobs\n", PROMPT),
    ("bg; until [ \"$(jobs -s)\" ]; do :; done\n", PROMPT), # it reads the terminal
    ("jobs\n", PROMPT), ("fg\n", rb"wait status 7\r\n"), ("\x04", PROMPT), ("echo status=$?\n", PROMPT),
    ("{} wait & until [ \"$(jobs -s)\" ]; do :; done\n", PROMPT), ("kill %1; while kill -0 $! 2> /dev/null; do :; done\n", PROMPT), ("jobs\n", PROMPT),
    ("{} hold 1 churn & kill -STOP %1; until [ \"$(jobs -s)\" ]; do :; done\n", PROMPT), ("jobs\n", PROMPT),
    ("kill -CONT %1; until [ \"$(jobs -r)\" ]; do :; done; jobs\n", PROMPT), ("kill -9 %1; wait %1; echo status=$?\n", PROMPT),
    ("{} hold 1 status 3 | cat; echo status=${PIPESTATUS[*]}\n", PROMPT), ("yes | {} status 4; echo status=${PIPESTATUS[*]}\n", PROMPT),
    ("exit 5\n", None),
]

pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL) # Python ignores it
    os.environ.update(PS1="READY> ", TERM="dumb", HISTFILE="/dev/null", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])

def read_until(pattern):
    text = b""
    while pattern is None or not re.search(pattern, text):
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit("nothing comes after %r" % text)
        try:
            piece = os.read(terminal, 4096)
        except OSError: # the shell has ended
            break
        if not piece:
            break
        text += piece
    return text.decode().replace("\r", "")

read_until(PROMPT)
for typed, until in STEPS:
    os.write(terminal, typed.replace("{}", prefix + program).encode())
    print(re.sub(r"(?m)^(\[\d+\] )?\d+$", r"\1N", read_until(until).replace(prefix, "")))
print("shell", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END

python3 jobs.py "" ./sidecar_program > plain 2> plain.err || fail_with "without jespan" plain.err
python3 jobs.py "$JESPAN_CMD run --quiet --dump-dir dumps -- " ./sidecar_program > jespan 2> jespan.err || fail_with "with jespan" jespan.err
for word in status=130 status=131 status=148 status=7 status=137 "status=3 0" "status=141 4" Stopped Running Terminated; do
    grep -q "$word" plain || fail_with "without jespan: no $word" plain
done
diff plain jespan > differs || fail_with "job control differs" differs

# As process 1, nobody would continue a program that ^Z has stopped. The system lets ^Z not stop a process 1 either.
cat > first.py << 'END'
import os, pty, re, select, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
text = b""
for typed, until in (b"", rb"\d+\r\n"), (b"\x1a", rb"\^Z"), (b"\x04", None):
    os.write(terminal, typed)
    while until is None or not re.search(until, text):
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit("nothing comes after %r" % text)
        try:
            text += os.read(terminal, 4096)
        except OSError: # the program has ended
            break
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
unshare=(unshare -p -f --mount-proc)
if "${unshare[@]}" true 2> /dev/null; then
    equal "process 1, after ^Z" "$(python3 first.py "${unshare[@]}" "$JESPAN_CMD" run --quiet --dump-dir first -- "$program" say wait status 7 2>&1)" 7
fi
finish
