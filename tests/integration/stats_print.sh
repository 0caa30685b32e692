#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# malloc_stats_print() and malloc_stats(): jespan's section after that of jemalloc or glibc, as text and as one JSON document. The
# same of what jemalloc prints at exit.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need python3
program=$scratch/stats_print_program
more=()
[ "${JESPAN_BINDING:-static}" = static ] || more=(-ljemalloc) # malloc_message is its variable
compile "$program" tests/integration/stats_print_program.c "${more[@]}"
cd "$scratch"
export JESPAN_CONF='alert:inuse(cache)>1M|inuse("x\y")>1G'

# lines FILE: the section
lines() {
    sed -n '/^___ Begin jespan statistics ___$/,/^--- End jespan statistics ---$/p' "$1"
}

has() {
    grep -qE "$2" "$1" || fail_with "$1: no line is like $2" "$1"
}

test_text() {
    "$program" print > text
    equal "the end" "$(tail -n 1 text)" '--- End jespan statistics ---'
    grep -q '^--- End jemalloc statistics ---$' text || fail "jemalloc's part is missing"
    lines text > section
    has section '^In use: [0-9]+ bytes in [0-9]+ objects$'
    has section "^jespan's own memory: [1-9][0-9]* bytes in small pieces, [1-9]"
    has section '^Limits: 1, refused allocations: 0$'
    equal "the contexts" "$(grep -c -E ' (span|cache|thread:[^ ]*|</script>.*) *(\{.*)?$' section)" 22
    has section '^Contexts with most in use:$'
    equal "who has most" "$(grep -A2 '^Contexts with' section | tail -n 1 | tr -s ' ')" \
        $' 8388608 1 8388608 </script>"\\?\xff\xf0\x9f\xa6\x80 {tenant=a"b\\c\xfe}'
    has section '^ +3145728 +5242880 +9437184 +0  cache$'
    has section '^ +3145728 +[0-9]+  cache$'
    has section '^Alert inuse\(cache\)>1M: [0-9]+ bytes, '
}

test_json() {
    local options
    for options in J Jmdablxe Jg; do
        "$program" print "$options" > json
        python3 - json <<'END' > values || fail_with "option $options: no JSON" json
import json, sys
doc = json.loads(open(sys.argv[1], "rb").read().decode())
ours = doc["jespan"]
print(sorted(doc), len(ours["contexts"]), "version" in doc["jemalloc"] or sorted(doc["jemalloc"])[:1])
first = ours["contexts"][0]
print(ascii(first["path"]), first["inuse_bytes"], first["inuse_objects"])
print(ours["limits"], [(a["name"], a["inuse_bytes"]) for a in ours["arenas"]])
print([a["rule"] for a in ours["alerts"]], ours["all"]["inuse_bytes"] > 12000000, ours["stats"]["contexts"] > 30)
END
        [ "$options" = Jg ] || equal "values with $options" "$(head -n 1 values | sed 's/ [^ ]*$//')" "['jemalloc', 'jespan'] 20"
        equal "values with $options" "$(tail -n +2 values)" \
            "'</script>\"\\\\?\\ufffd\\U0001f980 {tenant=a\"b\\\\c\\ufffd}' 8388608 1
[{'path': 'cache', 'limit_inuse_bytes': 3145728, 'limit_soft': 5242880, 'limit_hard': 9437184, 'limit_refusals': 0}] [('cache', 3145728)]
['inuse(cache)>1M', 'inuse(\"x\\\\y\")>1G'] True True"
    done
}

test_where() {
    "$program" message J > json
    python3 -c 'import json; assert "jespan" in json.load(open("json"))' || fail_with "malloc_message" json
    "$program" null > out 2> err
    equal "stdout without a function" "$(cat out)" ""
    has err '^--- End jespan statistics ---$'
    "$program" print s > text
    equal "the option s" "$(tail -n 1 text)" '--- End jemalloc statistics ---'
    "$program" print Js > json
    python3 -c 'import json; assert list(json.load(open("json"))) == ["jemalloc"]' || fail_with "the options Js" json
    "$program" stats 2> err
    equal "malloc_stats" "$(head -n 1 err)" 'Total (incl. mmap):'
    lines err > section
    has section '^In use: '
}

# What jemalloc prints at exit: one document too, also if names in it have quotes, control characters and bytes that are no UTF-8.
test_at_exit() {
    local options
    MALLOC_CONF=stats_print:true "$program" exit > out 2> err
    equal "stdout at exit" "$(cat out)" ""
    equal "the end at exit" "$(tail -n 1 err)" '--- End jespan statistics ---'
    equal "sections at exit" "$(grep -c '^--- End ' err)" 2
    lines err > section
    has section '^ +8388608 +1 +8388608  </script>'
    for options in J Jmdablxe Jg; do
        for mode in exit exit-message; do
            JESPAN_CONF=$'alert:inuse("x\\\x01\t\xff\xc3\xa4{k=\"})>1G' MALLOC_CONF=stats_print:true,stats_print_opts:$options \
                "$program" "$mode" > out 2> err
            [ "$mode" = exit ] || mv out err
            python3 - err <<'END' > values || fail_with "$mode: option $options: no JSON" err
import json, sys
doc = json.loads(open(sys.argv[1], "rb").read().decode())
print(sorted(doc), ascii(doc["jespan"]["contexts"][0]["path"]), ascii([a["rule"] for a in doc["jespan"]["alerts"]]))
END
            equal "$mode: values with $options" "$(cat values)" \
                "['jemalloc', 'jespan'] '</script>\"\\\\?\\ufffd\\U0001f980 {tenant=a\"b\\\\c\\ufffd}' ['inuse(\"x\\\\\\x01\\t\\ufffd\\xe4{k=\"})>1G']"
        done
    done
    MALLOC_CONF=stats_print:true "$program" null J > out 2> err
    python3 -c 'import json, sys; text = open("err", errors="replace").read(); print(json.JSONDecoder().raw_decode(text)[1] < len(text))' > values
    equal "malloc_stats_print() before the exit" "$(cat values)" True
    equal "the end after it" "$(tail -n 1 err)" '--- End jespan statistics ---'
}

test_text
test_json
test_where
test_at_exit
finish
