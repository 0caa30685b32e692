# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# For test scripts, after lib.sh: what comes from a language's registry is fetched and built once, and kept in a cache.

fetched=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/jespan-tests

# build_once NAME FUNCTION: sets $built, a directory of the cache, which FUNCTION fills; of two that want it, one builds
build_once() {
    built=$fetched/$1
    mkdir -p "$fetched"
    set +e # else it would be off in what an || follows, too
    (
        set -e
        flock 9
        [ ! -d "$built" ] || exit 0
        rm -rf "$built.new"
        mkdir "$built.new"
        "$2" "$built.new" > "$scratch/build" 2>&1
        mv "$built.new" "$built"
    ) 9> "$built.lock"
    local status=$?
    set -e
    [ "$status" = 0 ] || { fail_with "$1 cannot be built" "$scratch/build"; finish; }
}
