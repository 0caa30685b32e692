#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck disable=SC2317 # functions that same() and the cleanup call
# Real programs under LD_PRELOAD do what they do without, and jespan says nothing. Those that are not installed are named.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

missing=()
cd "$scratch"

# needs PROGRAM... : false where one is missing
needs() {
    local program
    for program; do
        if ! have "$program" && [ ! -e "$program" ]; then
            missing+=("$program")
            return 1
        fi
    done
}

silent() {
    ! grep -q '^jespan: ' "$2" || fail_with "$1: jespan has something to say" "$2"
}

# same WHAT COMMAND... : status, stdout and stderr with and without the library. COMMAND may be a function.
same() {
    local what=$1 plain=0 with=0
    shift
    (unset LD_PRELOAD; "$@") > plain.out 2> plain.err < /dev/null || plain=$?
    (export LD_PRELOAD=$JESPAN_LIB; "$@") > with.out 2> with.err < /dev/null || with=$?
    equal "$what: status" "$with" "$plain"
    cmp -s plain.out with.out || fail_with "$what: another output" plain.out with.out
    cmp -s plain.err with.err || fail_with "$what: another stderr" plain.err with.err
    silent "$what" with.err
}

# ---- The library is really there ----

is_loaded() {
    grep -q "$(readlink -f "$JESPAN_LIB")" < <(preloaded cat /proc/self/maps) || fail "the library is not loaded by LD_PRELOAD"
}

# ---- Another library whose functions allocate when jespan boots, as libfakeroot and libfakechroot ----

other_library() {
    cat > wraps.c << 'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static void allocate(void)
{
    free(realloc(malloc(100), 1000));
}
int fstat(int fd, struct stat *status)
{
    allocate();
    return (int)syscall(SYS_fstat, fd, status);
}
int open(const char *path, int flags, ...)
{
    allocate();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}
END
    # shellcheck disable=SC2086
    $CC -shared -fPIC -fno-builtin -o wraps.so wraps.c
    local first
    for first in "$JESPAN_LIB:$PWD/wraps.so" "$PWD/wraps.so:$JESPAN_LIB"; do
        equal "with $first" "$(LD_PRELOAD=$first sh -c 'ls /dev/null' 2>&1)" /dev/null
    done
}

# ---- A program with a malloc of its own, as Chromium ----

own_malloc() {
    cat > own.c << 'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static _Alignas(16) char heap[1 << 20];
static size_t used;
void *malloc(size_t n)
{
    char *p = heap + used;
    used += (n + 15) & ~(size_t)15;
    return p;
}
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t n) { return p ? memcpy(malloc(n), p, n) : malloc(n); }
void free(void *p)
{
    if (p && ((char *)p < heap || (char *)p >= heap + sizeof heap))
        abort();
}
int main(int argc, char **argv)
{
    free(strdup(argv[0]));
    free(strndup(argv[0], (size_t)argc));
    return printf("%d\n", argc) < 0;
}
END
    "$CC" -fno-builtin -o own_malloc own.c || fail "own.c cannot be compiled"
    same "a program with a malloc of its own" ./own_malloc
}

# ---- Small tools ----

script_of_bash() {
    local i list=() sum=0
    for i in $(seq 1 3000); do
        list+=("$i:$(printf '%05d' "$i")")
        sum=$((sum + ${#list[i - 1]}))
    done
    echo "$sum ${list[*]: -3}"
    (echo "in a subshell"; exit 3)
    echo "$? $(echo a b c | tr ' ' '\n' | sort -r | head -n 1)"
    bash -c 'trap "echo trapped" EXIT; echo {1..50}; exit 5'
}

small_tools() {
    same "bash" script_of_bash
    same "ls" ls -lR /usr/include
    same "find" find /usr/include /usr/lib -name '*.h' -size +1k -print
    same "sort" sort -r /usr/share/dict/words /etc/services /usr/include/stdio.h
    same "awk" awk '{ n[$1]++ } END { for (k in n) s += n[k]; print s, length(n) }' /etc/services
    same "a program that fails" ls /nonexistent
}

# ---- Compilers, interpreters, databases ----

big_c_file() {
    local i
    echo '#include <stdio.h>'
    for i in $(seq 1 250); do
        cat << END
struct s$i { int a[$((i % 30 + 1))]; char name[$((i % 50 + 1))]; struct s$i *next; };
static int f$i(struct s$i *s, int n) { int r = $i; for (int i = 0; i < n; i++) { r = r * 31 + s->a[i % $((i % 30 + 1))];
    switch (r % 7) { case 0: r ^= n; break; case 1: r += i; break; case 2: r -= $i; break; default: r++; } } return s->next ? f$i(s->next, r & 15) : r; }
int g$i(int n) { struct s$i a = {{n}, "n$i", 0}, b = {{1}, "b", &a}; return f$i(&b, n) + printf("%s", a.name); }
END
    done
}

compile_big() {
    "$1" -O2 -c big.c -o "$1.o" && cksum < "$1.o"
}

compilers() {
    big_c_file > big.c
    needs gcc && same "gcc -O2" compile_big gcc
    needs clang && same "clang -O2" compile_big clang
    return 0
}

cxx_program() {
    needs "$CXX" || return 0
    cat > program.cc << 'END'
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
static long work(int seed)
{
    std::map<std::string, std::vector<int>> m;
    for (int i = 0; i < 100000; i++) {
        std::ostringstream key;
        key << "key " << (i * 7919 + seed) % 1000;
        m[key.str()].push_back(i);
        if (i % 1000 == 0)
            m.erase(m.begin());
    }
    long sum = 0;
    for (auto &e : m)
        sum += static_cast<long>(e.first.size() * e.second.size());
    try {
        throw std::runtime_error(std::string(100, 'x'));
    } catch (const std::exception &e) {
        sum += static_cast<long>(std::string(e.what()).size());
    }
    struct alignas(256) Wide { char c[256]; };
    std::vector<std::unique_ptr<Wide>> wide;
    for (int i = 0; i < 1000; i++)
        wide.push_back(std::make_unique<Wide>());
    for (auto &w : wide)
        sum += reinterpret_cast<unsigned long>(w.get()) % 256;
    return sum;
}
int main()
{
    std::vector<long> results(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i, &results] { results[i] = work(i); });
    for (auto &t : threads)
        t.join();
    for (long r : results)
        std::cout << r << "\n";
}
END
    "$CXX" -std=c++17 -O1 program.cc -o program -pthread || fail "the C++ program does not compile"
    same "a C++ program" ./program
}

python_tests() {
    needs /usr/bin/python3 || return 0
    if ! /usr/bin/python3 -c 'import test.test_dict' 2> /dev/null; then
        missing+=("python3's tests (libpython3-testsuite)")
        return 0
    fi
    preloaded /usr/bin/python3 -m test test_json test_dict test_list > python.out 2>&1 || fail_with "python3: status $?" python.out
    grep -q 'SUCCESS' python.out || fail_with "python3: no success" python.out
    silent "python3" python.out
}

# Arenas and limits for threads by name, in a program that knows nothing of them.
governed_python() {
    needs /usr/bin/python3 || return 0
    cat > governed.py << 'END'
import json, threading, zlib
def work(seed):
    kept = [json.loads(json.dumps({"n": [seed, i, "x" * (i % 500)]})) for i in range(5000)]
    results[seed] = zlib.crc32(json.dumps(kept).encode())
results = {}
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(results.items()))
END
    (export JESPAN_CONF='arena:thread:*=guarded+wiped,limit:thread:*=1G'
        same "python3 in arenas" env PYTHONMALLOC=malloc /usr/bin/python3 governed.py)
    equal "python3 beyond its limit" "$(JESPAN_CONF='limit:thread:python*=200M' preloaded /usr/bin/python3 -c '
try:
    kept = [b"x" * 1000000 for i in range(1000)]
except MemoryError:
    del kept, i
' 2>&1 | tail -n 1)" "NameError: name 'kept' is not defined"
}

build_database() {
    rm -f test.db
    sqlite3 test.db << 'END'
PRAGMA journal_mode = WAL;
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, data BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    INSERT INTO t SELECT i, 'name ' || (i * 7919 % 100003), zeroblob(900) || i FROM n;
CREATE INDEX by_name ON t (name);
UPDATE t SET data = data || 'x' WHERE id % 10 = 0;
DELETE FROM t WHERE id % 17 = 0;
PRAGMA integrity_check;
SELECT count(*), sum(length(data)), min(name), max(name) FROM t;
SELECT name, count(*) FROM t GROUP BY substr(name, 1, 6) ORDER BY 2 DESC, 1 LIMIT 10;
END
    stat -c %s test.db
}

database() {
    needs sqlite3 || return 0
    same "sqlite3" build_database
    [ "$(tail -n 1 with.out)" -ge 100000000 ] || fail "sqlite3: the database has only $(tail -n 1 with.out) bytes"
}

# ---- git ----

make_repository() {
    local i j
    git init -q repository
    for i in $(seq 1 300); do
        printf 'commit refs/heads/main\ncommitter T <t@example.org> %d +0000\ndata 2\nc\n' $((1700000000 + i))
        for j in 1 2 3 4 5; do
            printf 'M 100644 inline f%d\ndata <<EOF\n%s\nEOF\n' $((i * j % 97)) "$(seq "$i" $((i + j * 100)))"
        done
    done | git -C repository fast-import --quiet
}

collect() {
    rm -rf copy
    cp -r repository copy
    git -C copy gc -q --aggressive --prune=now
    git -C copy fsck --full --strict 2>&1
    git -C copy rev-list --objects --all | sort | cksum
    git -C copy log --stat | cksum
}

git_gc() {
    needs git || return 0
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
    make_repository
    same "git gc" collect
}

# ---- Servers ----

redis() {
    redis-cli -s redis.sock "$@" 2>&1
}

start_redis() {
    LD_PRELOAD=$JESPAN_LIB JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$scratch/dumps,dump_interval_s:1,dump_at_exit:true \
        redis-server --port 0 --unixsocket "$scratch/redis.sock" --save '' --dir "$scratch" > redis.out 2>&1 &
    server=$!
    await redis ping || fail_with "redis: does not start" redis.out
}

stop_redis() {
    local status=0
    redis shutdown "$1" > /dev/null || true
    wait "$server" || status=$?
    equal "redis: status" "$status" 0
    silent "redis" redis.out
}

redis_load() {
    local size dump
    needs redis-server redis-benchmark redis-cli || return 0
    mkdir dumps
    start_redis
    redis-benchmark -s redis.sock -t set,get,lpush,hset -n 200000 -q > benchmark.out 2>&1 ||
        fail_with "redis-benchmark: status $?" benchmark.out
    equal "redis: tests" "$(tr '\r' '\n' < benchmark.out | grep -c 'requests per second')" 4
    equal "redis: list" "$(redis llen mylist)" 200000
    redis debug populate 100000 key 100 > /dev/null
    size=$(redis dbsize)
    redis flushall async > /dev/null
    redis debug populate 100000 key 100 > /dev/null
    redis bgsave > /dev/null # a fork under load
    redis-benchmark -s redis.sock -t set -n 20000 -r 1000 -q > benchmark.out 2>&1
    await eval 'grep -q rdb_bgsave_in_progress:0 < <(redis info persistence)'
    grep -q 'rdb_last_bgsave_status:ok' < <(redis info persistence) || fail "redis: bgsave failed"
    size=$(redis dbsize)
    stop_redis save
    start_redis
    equal "redis: keys after a restart" "$(redis dbsize)" "$size"
    stop_redis nosave
    [ "$(dumps_in dumps | wc -l)" -ge 3 ] || fail "redis: only these dumps: $(dumps_in dumps)"
    for dump in dumps/heap.*; do
        is_whole "$dump" || fail "redis: $dump is not whole"
    done
}

web_server() {
    needs nginx curl || return 0
    mkdir -p nginx/html nginx/logs
    cp big.c nginx/html/big.txt
    cat > nginx/nginx.conf << END
daemon off; user root; worker_processes 2; pid nginx.pid; error_log logs/error.log;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types text/plain; server { listen unix:$scratch/nginx.sock; root html; }
    client_body_temp_path logs; proxy_temp_path logs; fastcgi_temp_path logs; uwsgi_temp_path logs; scgi_temp_path logs; }
END
    LD_PRELOAD=$JESPAN_LIB nginx -p "$scratch/nginx" -c nginx.conf > nginx.out 2>&1 &
    server=$!
    await curl -sf --unix-socket nginx.sock http://localhost/big.txt || fail_with "nginx: does not start" nginx.out
    local wrong=0
    for _ in $(seq 1 50); do
        curl -s --compressed --unix-socket nginx.sock http://localhost/big.txt | cmp -s - big.c || wrong=$((wrong + 1))
    done
    equal "nginx: answers that are wrong" "$wrong" 0
    kill -QUIT "$server"
    wait "$server" || fail_with "nginx: status $?" nginx.out
    cat nginx.out nginx/logs/error.log > nginx.all
    silent "nginx" nginx.all
}

stop_server() {
    if [ -n "${server-}" ]; then
        kill "$server" 2> /dev/null
    fi
}
cleanup_hook=stop_server

is_loaded
other_library
own_malloc
small_tools
compilers
cxx_program
python_tests
governed_python
database
git_gc
redis_load
web_server
# Only when something failed does the exit status say so; a program that is missing is named, and the rest was tried.
[ ${#missing[@]} -eq 0 ] || echo "preload.sh: not tried, since not installed: ${missing[*]}"
[ ${#missing[@]} -eq 0 ] || [ "$failures" -gt 0 ] || skip "${missing[*]} not installed; the others ran well"
finish
