#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A Go program that calls C: stacks have the Go functions below the C ones, though Go calls C on another stack. In goroutines, through
# a callback from C, and with deep stacks that Go has moved. Figures are exact, since nothing else calls these functions.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"
need go
[ "$(uname -m)" = x86_64 ] || skip "on other processors only frame pointers are followed"

cd "$scratch"
cat > leak.go << 'END'
package main

// #include <stdlib.h>
// extern void called_back(int n);
// static void *keep(int n) { return malloc(n); }
// static void call_back(int n) { called_back(n); }
import "C"
import (
	"bufio"
	"fmt"
	"os"
	"sync"
)

//go:noinline
func keepOne() { C.keep(100) }

//export called_back
func called_back(n C.int) { keepOne() }

//go:noinline
func throughC() { C.call_back(1) }

//go:noinline
func deep(n int) int {
	if n == 0 {
		keepOne()
		return 0
	}
	return deep(n-1) + 1
}

func main() {
	var all sync.WaitGroup
	for g := 0; g < 10; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 50; i++ {
				deep(5)
				throughC()
				deep(1000)
			}
		}()
	}
	all.Wait()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}
END
GO111MODULE=off CGO_ENABLED=1 go build -o leak leak.go > build.log 2>&1 || skip "go builds no program with C: $(tail -n 1 build.log)"

mkfifo in
"$JESPAN_CMD" run --quiet --stacks --dump-dir dumps -- ./leak < in > said 2> err &
pid=$!
pids+=("$pid")
exec 7> in
await_of "$pid" grep -q ready said || fail_with "the program is not ready" err said
"$JESPAN_CMD" report --stacks --csv --columns objects "$pid" 2> report.err | tr -d '"' | grep '> keep$' > paths || true
exec 7>&-
wait "$pid" || fail "the program fails"

# paths PATTERN: the objects of the paths that it fits
objects() {
    grep -E "$1" paths | cut -d, -f1 | awk '{ n += $1 } END { print n + 0 }'
}
bottom='> main\.keepOne > main\._Cfunc_keep > runtime\.cgocall > runtime\.asmcgocall > [^>]* > keep$'
equal "goroutines" "$(objects "> runtime\.goexit > main\.main\.func1( > main\.deep){6} $bottom")" 500
equal "a callback" "$(objects "> main\.called_back $bottom")" 500
equal "deep stacks" "$(objects "( > main\.deep){50} $bottom")" 500
[ "$failures" = 0 ] || fail_with "paths" paths report.err
finish
