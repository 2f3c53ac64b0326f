#!/bin/sh
# Runs all programs on a rack and checks what they say:  make test-rack
#
#   RUN    starts a program on so many nodes: "$RUN 4 -- program" (rackmem run -n)
#   BUILD  where the programs are (build)
#   GRAPH  an edge list to use besides the generated graph (none)
set -eu
RUN=${RUN:-rackmem run -n}
BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fails STATUS N PROGRAM ...: the run has to end with this status.
fails() {
    expected=$1
    shift
    status=0
    run "$@" >"$work/out" 2>&1 || status=$?
    if [ "$status" != "$expected" ]; then
        echo "status $status, expected $expected: $*" >&2
        cat "$work/out" >&2
        exit 1
    fi
}

# run N PROGRAM ...: the program of this name on N nodes.
run() {
    nodes=$1
    program=$2
    shift 2
    $RUN "$nodes" -- "$BUILD/$program" "$@"
}

# expect PATTERN: the last run printed it.
expect() {
    if ! grep -q -- "$1" "$work/out"; then
        echo "expected: $1" >&2
        cat "$work/out" >&2
        exit 1
    fi
}

for nodes in 1 2 3 4; do
    fails 0 $nodes tests/rack_test
done
expect '29 passed on 4 nodes'

fails 0 4 hello
expect 'of 4 took number 3'
fails 0 1 hello
expect 'node 0 of 1 took number 0'

# Serial, shm and bulk give the same bits whatever the number of nodes; fine differs in rounding
# alone, which the program checks itself.
for graph in "--kronecker 12:8" "--kronecker 9 --undirected" ${GRAPH:+"--undirected $GRAPH"}; do
    for nodes in 1 2 3 4; do
        # shellcheck disable=SC2086  # A graph is one argument or several.
        fails 0 $nodes pagerank $graph --json
        grep -o '"checksum":"[0-9a-f]*"' "$work/out" | head -n 3
    done | sort -u >"$work/checksums"
    if [ "$(wc -l <"$work/checksums")" != 1 ]; then
        echo "the variants of PageRank disagree: $graph" >&2
        exit 1
    fi
done
for threads in 2 5; do
    fails 0 3 pagerank --kronecker 10:8 --variant serial,fine --node-threads $threads
    fails 0 2 pagerank --kronecker 3:1 --variant serial,fine --node-threads $threads
done
fails 0 2 pagerank --kronecker 3:1 --variant fine --ranks "$work/ranks"
[ "$(wc -l <"$work/ranks")" = 8 ]
fails 0 4 pagerank --kronecker 1:1 --supersteps 1 # more nodes than vertices
printf '1 2\nx y\n' >"$work/bad.txt"
fails 1 2 pagerank "$work/bad.txt"
expect "bad.txt:2: expected 'from to', found 'x y'"
fails 2 2 pagerank --variant none "$work/bad.txt"
fails 2 2 pagerank
fails 1 1 pagerank --kronecker 3:1 --variant fine --node-threads 1000
expect 'cannot make a queue pair for every thread'

fails 0 2 kvstore --seconds 0.0002 --keys 50
fails 0 2 kvstore --seconds 0.3
expect 'wrong  *0$'
fails 0 3 kvstore --seconds 0.3 --keys 1 --value-bytes 1000
expect 'wrong  *0$'
fails 0 3 kvstore --lookups 10000 --keys 50 --value-bytes 300 --json
expect '"wrong":0'
fails 1 1 kvstore
expect 'needs two nodes'

for threshold in 0 inf 1K; do
    fails 0 2 netpipe --seconds 0.01 --sizes 0,1,8,56,57,4K,64K,100000 --threshold $threshold
    fails 0 3 netpipe --seconds 0.01 --sizes 8,64K --threshold $threshold --staged --async --json
done
expect '"program":"netpipe"'
fails 0 2 netpipe --seconds 0.0002 --sizes 8,1K
fails 1 1 netpipe

fails 0 2 remote_read --seconds 0.0002 --sizes 64 --region 64K --window 8
fails 0 2 remote_read --seconds 0.01 --sizes 1,64,100,8K,1M --region 4M --window 2
fails 0 3 remote_read --seconds 0.01 --sizes 64..8K --sides 2 --region 8K --json
expect '"program":"remote_read"'
fails 0 2 remote_read --seconds 0.001 --sizes 64,8K --region 1M --unfilled --sync-reads
fails 2 2 remote_read --sizes 8K --region 4K
fails 2 2 remote_read --window 3
fails 1 1 remote_read

fails 0 2 many_reads --threads 2 --reads 2000 --bytes 4K --region 4M --async
fails 0 2 many_reads --threads 2 --reads 200 --json
expect '"program":"many_reads"'
fails 1 1 many_reads
echo "rack: ok"
