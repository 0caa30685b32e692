#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The judge of pyroscope_push.sh is fair: it accepts the pushes of Pyroscope's own client for Python, and it can refuse.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pyroscope.sh
. "$(dirname "$0")/../support/pyroscope.sh"

require_client
start_judge

check_client() {
    "$client_python" "$top_srcdir/tests/interop/pyroscope_client.py" "$judge" > "$scratch/client" 2>&1 ||
        fail_with "the client failed" "$scratch/client"
    equal "refused" "$(report 'r["refused"]')" ""
    equal "profiles" "$(report 'sorted({s["labels"]["__name__"] for s in series})')" $'memory\nprocess_cpu'
    equal "service_name" "$(report '{s["labels"]["service_name"] for s in series}')" "{'client.py'}"
    equal "pushes" "$(report 'min(s["profiles"] for s in series) >= 2')" True
    equal "a tag" "$(report '{s["labels"].get("route") for s in of("process_cpu")[0]["stacks"].values()} >= {"/a"}')" True
    equal "CPU" "$(report '1e8 < of("process_cpu")[0]["totals"]["cpu"] < 4e9')" True
}

# post TYPE FILE: the status that it is answered with
post() {
    curl -sS -o "$scratch/answer" -w '%{http_code}' -H "Content-Type: $1" --data-binary "@$2" \
        "$judge/push.v1.PusherService/Push"
}

# Of what is refused nothing is added, and of what comes again.
check_refusals() {
    curl -fsS -X POST "$judge/reset"
    equal "faults" "$(python3 "$top_srcdir/tests/interop/judge_refusals.py" "$judge" 2>&1)" ""
    echo "nonsense" > "$scratch/nonsense"
    equal "nonsense" "$(post application/proto "$scratch/nonsense")" 400
    equal "no such type" "$(post text/plain "$scratch/nonsense")" 415
    echo '{}' > "$scratch/empty"
    equal "nothing" "$(post application/json "$scratch/empty")" 400
    equal "added" "$(report '[r["profiles"], r["repeats"], series[0]["totals"]["wall"], series[0]["spans"]]')" \
        "$(printf '%s\n' 2 1 2 "{'00000000000000ab': {'wall': 1}}")"
}

check_client
check_refusals
finish
