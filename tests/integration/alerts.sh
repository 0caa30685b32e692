#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Alerts and the dump of the peak, from the sidecar and from the process itself.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
program=$scratch/alerts_program
compile "$program" tests/integration/alerts_program.c
export XDG_RUNTIME_DIR=$scratch COLUMNS=300
cd "$scratch"

# run DIRECTORY RULES WORD…: the program, whose readings follow one another closely; its stderr is in DIRECTORY.err
run() {
    local directory=$1 rules=$2
    shift 2
    status=0
    "$JESPAN_CMD" run --dump-dir "$directory" --interval 0 "${options[@]}" --conf "reading_interval_ms:5,alert:$rules$more" -- \
        "$program" "$@" 2> "$directory.err" || status=$?
}
options=()
more= # keys

# said FILE PATTERN…: the lines that begin with "jespan: alert" are like these, one after the other
said() {
    local file=$1 line i=0
    shift
    while read -r line; do
        i=$((i + 1))
        # shellcheck disable=SC2053
        [ $i -gt $# ] || [[ $line == ${!i} ]] || fail "$file: '$line' is not like '${!i}'"
    done < <(grep '^jespan: alert: ' "$file")
    equal "$file: alerts" "$i" "$#"
}

# bytes_of FILE SPAN
bytes_of() {
    "$JESPAN_CMD" report --exact --filter "$2" --by name "$1" | awk 'END { print $1 }'
}

# The program holds memory until the dump of the alert is there, so the alert cannot be missed.
test_alerts() {
    run told "inuse(work)>1M|inuse(work{tenant=red})>1M|growth(thread:*)>1M/h|outlived(session)>100K|inuse(*)>1G" \
        work 8000000 await 'told/*.1.alert.pb.gz' drop keep 300000 await 'told/*.2.alert.pb.gz' \
        plain 2000000 await 'told/*.3.alert.pb.gz'
    equal "status" "$status" 0
    said told.err \
        'jespan: alert: inuse(work)>1M: 8388608 bytes in alerts_program (process *); 8388608 in use by work > part {tenant=blue}' \
        'jespan: alert: outlived(session)>100K: 327680 bytes in alerts_program (process *); 327680 in use by session' \
        'jespan: alert: growth(thread:\*)>1M/h: 2* bytes in alerts_program (process *); 2* in use by thread:alerts_program'
    equal "the dump of the first" "$(bytes_of told/heap.*.1.alert.pb.gz 'work{tenant=blue}')" 8388608
    equal "that of the second" "$(bytes_of told/heap.*.2.alert.pb.gz session)" 327680
}

# Told once while the value stays, and again after it was below seven eighths. The alert of `session` shows that it was seen.
test_again() {
    run again 'inuse(work > part{tenant=b*})>1M|outlived(session)>100K' work 2000000 await 'again/*.1.alert*' drop \
        keep 300000 await 'again/*.2.alert*' work 4000000 await 'again/*.3.alert*'
    equal "status" "$status" 0
    said again.err '*: 2097152 bytes in *' '*outlived(session)*' '*: 4194304 bytes in *'
}

# Readings a second apart, as by default, with a rule for a second. The first reading comes before the growth.
test_growth() {
    options=(--in-process) more=,reading_interval_ms:1000
    run growth 'growth(*)>16K/s|outlived(session)>100K' keep 300000 fired 2 1 grow 1
    options=() more=
    equal "status" "$status" 0
    said growth.err '*outlived(session)*' 'jespan: alert: growth(\*)>16K/s: * bytes; * in use by thread:*'
}

test_in_process() {
    options=(--in-process --peak)
    run inside 'inuse(work)>1M' work 8000000 await 'inside/*.1.alert*'
    options=()
    equal "status" "$status" 0
    said inside.err 'jespan: alert: inuse(work)>1M: 8388608 bytes; 8388608 in use by work > part {tenant=blue}'
    equal "a peak without a sidecar" "$(grep -c 'dump_peak needs a sidecar, as jespan run starts one, and is ignored' inside.err)" 1
}

# The dump has what the rule has seen, though the program frees it before the dump can begin.
test_same_reading() {
    options=(--in-process)
    run same 'inuse(work)>1M' stall work 8000000 fired 1 1 drop flow await 'same/*.1.alert*'
    options=()
    equal "status" "$status" 0
    equal "the dump" "$(bytes_of same/heap.*.1.alert.pb.gz work)" 8388608
}

# While rules hold, their spans have stacks, with a sidecar and without. Which function allocated comes after the switch.
test_stacks() {
    local mode end
    for mode in --quiet --in-process; do
        options=("$mode") more=,alert_stacks:all
        run "stacks$mode" 'inuse(work)>1M|outlived(session)>100K|inuse(work{tenant=blue})>=1M' mode off work 8000000 mode 'all@work' \
            work 400000 keep 300000 mode 'all@work|session' drop mode 'all@work'
        equal "status with $mode" "$status" 0
        equal "switched with $mode" "$(sed -n 's/^jespan: alert: stacks: \([^ ]*\).*/\1/p' "stacks$mode.err")" $'all@work\nall@work|session\nall@work'
        "$JESPAN_CMD" report --by function --filter work "stacks$mode" > functions
        grep -Eq '^ *4[0-9.]* KiB .* take$' functions || fail_with "no stacks with $mode" functions
        # What the user sets stays, and what is configured is enough.
        run "by-hand$mode" 'inuse(work)>1M' work 8000000 mode 'all@work' stacks sampled drop ended 1 work 8000000 fired 1 2 mode sampled
        equal "status with $mode, by hand" "$status" 0
        options=("$mode" --stacks)
        run "configured$mode" 'inuse(work)>1M' work 8000000 fired 1 1 mode all drop ended 1 mode all
        equal "status with $mode, configured" "$status" 0
        options=("$mode") more=,alert_stacks:sampled
        run "all$mode" 'inuse(*)>1M' work 8000000 mode sampled drop mode off
        equal "status with $mode, all spans" "$status" 0
    done
    options=() more=
}

# A forked child has its own rules, which do not hold at first.
test_stacks_in_child() {
    options=(--in-process) more=,alert_stacks:all
    run child 'inuse(work)>1M' work 8000000 mode 'all@work' fork mode off
    equal "status" "$status" 0
    run by-hand-child 'inuse(work)>1M' work 8000000 mode 'all@work' stacks sampled fork mode sampled
    equal "status, by hand" "$status" 0
    # With a sidecar, the followed child has the memory too, and frees it.
    options=(--quiet) more=,alert_stacks:all,follow_fork:true
    run followed-child 'inuse(work)>1M' work 8000000 mode 'all@work' fork drop mode off
    equal "status, with a sidecar" "$status" 0
    options=() more=
}

test_wrong_rules() {
    local rule
    for rule in 'inuse(work)' 'inuse(work)>1X' 'inuse work>1M' 'growth(work)>1M' 'growth(work)>1M/day' 'inuse(work)>1M/min' \
        'use(work)>1M' 'inuse()>1M' 'inuse(a > )>1M' 'inuse(a{b})>1M' 'inuse(a{b=c)>1M' 'inuse(a{b=c}d)>1M' '>' '(' 'inuse)(>1' \
        'inuse(work)>=0' 'inuse(work)>=' 'inuse(work)=>1M' 'inuse(work)>=1M/min' 'inuse(work)>==1M'; do
        preloaded env JESPAN_CONF="alert:$rule" "$program" 2> wrong.err
        equal "$rule" "$(cat wrong.err)" "jespan: alert: '$rule' is not a rule such as inuse(SPAN)>1G, growth(SPAN)>10M/min or \
outlived(*)>64M, and is ignored"
    done
    preloaded env JESPAN_CONF="alert:| inuse( a > b {c=d}{e=f} ) >1M|| growth(*)>1K/s|outlived({a=*})>0|growth(*) >= 1K / s|inuse(*)>=1" "$program" 2> wrong.err
    equal "odd but right" "$(cat wrong.err)" ""
}

# With a sidecar and without: the callback is told what begins and ends, and mallctl shows the rules.
test_callback() {
    local mode
    for mode in --quiet --in-process; do
        options=("$mode")
        run "callback$mode" 'inuse(work)>=1M|growth(*)>1G/h' callback work 8000000 told 1 fired 1 1 rules drop told 2 ended 1 rules > out
        equal "status with $mode" "$status" 0
        equal "told with $mode" "$(sed 's/, bytes [0-9]*$//' out)" \
            "began inuse(work)>=1M: 8388608 of 1048576 bytes, 8388608 in 'work > part {tenant=blue}'
1 inuse(work)>=1M: holding 1, fired 1
2 growth(*)>1G/h: holding 0, fired 0
ended inuse(work)>=1M: 0 of 1048576 bytes, 0 in '', none
1 inuse(work)>=1M: holding 0, fired 1
2 growth(*)>1G/h: holding 0, fired 0"
        equal "bytes with $mode" "$(sed -n 's/^1 .*, bytes //p' out | tr '\n' ' ')" "8388608 0 "
        run "late$mode" 'inuse(work)>1M|outlived(session)>1' work 4000000 fired 1 1 callback told 1 rules > out
        equal "told late with $mode" "$(head -n 2 out | sed 's/, bytes [0-9]*$//')" \
            "began inuse(work)>1M: 4194304 of 1048576 bytes, 4194304 in 'work > part {tenant=blue}'
1 inuse(work)>1M: holding 1, fired 1"
    done
    options=()
}

has_fired() {
    [[ $("$JESPAN_CMD" ctl "$1" get spans.alerts.2.fired) == *1 ]]
}

# What another process and Prometheus see. A rule that is there twice is one.
test_shown() {
    local mode rules='inuse(work{tenant="blue"})>1M|inuse(work)>=1M|inuse(work)>=1M' pid program_of_run
    for mode in --quiet --in-process; do
        rm -f pid go socket
        "$JESPAN_CMD" run "$mode" --http unix:socket --conf "reading_interval_ms:5,module_dir:$JESPAN_MODULES,alert:$rules" -- \
            "$program" pid work 8000000 fired 2 1 await go > pid 2> shown.err &
        program_of_run=$!
        await grep -q . pid
        pid=$(cat pid)
        await has_fired "$pid"
        equal "list with $mode" "$("$JESPAN_CMD" ctl "$pid" list 'spans.alerts.*')" "spans.alerts.count: 2
spans.alerts.1.rule: inuse(work{tenant=\"blue\"})>1M
spans.alerts.1.holding: 0
spans.alerts.1.fired: 0
spans.alerts.1.bytes: 0
spans.alerts.2.rule: inuse(work)>=1M
spans.alerts.2.holding: 1
spans.alerts.2.fired: 1
spans.alerts.2.bytes: 8388608"
        equal "no such rule" "$("$JESPAN_CMD" ctl "$pid" get spans.alerts.3.fired 2>&1)" \
            "jespan: $pid: spans.alerts.3.fired does not exist in it"
        if have curl && [ -f "$JESPAN_MODULES/http.so" ]; then
            await curl -s --unix-socket socket http://localhost/healthz
            equal "metrics with $mode" "$(curl -s --unix-socket socket http://localhost/metrics | grep '^jespan_alert')" \
                'jespan_alert{rule="inuse(work{tenant=\"blue\"})>1M"} 0
jespan_alert{rule="inuse(work)>=1M"} 1
jespan_alert_firings_total{rule="inuse(work{tenant=\"blue\"})>1M"} 0
jespan_alert_firings_total{rule="inuse(work)>=1M"} 1
jespan_alert_bytes{rule="inuse(work{tenant=\"blue\"})>1M"} 0
jespan_alert_bytes{rule="inuse(work)>=1M"} 8388608'
        fi
        touch go
        wait $program_of_run || fail_with "the program with $mode" shown.err
    done
}

# The peak is long gone, and the sidecar has seen that, when SIGKILL ends the program.
test_peak() {
    options=(--peak)
    run peak 'inuse(work)>1M|outlived(session)>100K' work 8000000 await 'peak/*.1.alert*' drop keep 300000 await 'peak/*.2.alert*' kill
    options=()
    equal "status" "$status" 137
    await compgen -G 'peak/heap.*.4*' || fail_with "no last dump" peak.err
    equal "the peak" "$(bytes_of peak/heap.*.3.peak.pb.gz work)" 8388608
    # The last dump knows it too
    equal "--peak" "$("$JESPAN_CMD" report --peak --csv --columns atpeak,inuse --filter work peak | tail -n +2)" \
        '8388608,0,"work > part {tenant=blue}"'
    "$JESPAN_CMD" report --peak --stacks --csv peak > peak.csv 2> no.err || fail_with "--peak --stacks" no.err
    grep -q '^8388608,.*"work > part {tenant=blue}' peak.csv || fail_with "--peak --stacks" peak.csv
    "$JESPAN_CMD" report --peak --stacks --csv peak/heap.*.3.peak.pb.gz > file.csv 2> no.err || fail_with "the file of a peak" no.err
    equal "--peak --stacks of the file" "$(cat file.csv)" "$(cat peak.csv)"
    # Another dump, and a directory without one of a peak, have what was there at the peak
    "$JESPAN_CMD" report --peak --stacks --csv peak/heap.*.4* > last.csv 2> no.err || fail_with "not of a peak" no.err
    grep -q '^8388608,[0-9.]*,8388608,0,"work > part {tenant=blue}' last.csv || fail_with "not of a peak" last.csv
    "$JESPAN_CMD" report --peak --stacks told > out 2> no.err || fail_with "no peak" no.err
    grep -q 'AT PEAK *SHARE *PEAK *IN USE' out || fail_with "no peak" out
}

test_alerts
test_again
test_growth
test_in_process
test_callback
test_shown
test_same_reading
test_stacks
test_stacks_in_child
test_wrong_rules
test_peak
finish
