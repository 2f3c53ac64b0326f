#!/bin/sh
# Gets the peers that bench/compare measures, and builds the small programs that measure them.
#
#   bench/peers/install.sh               packages, then build
#   bench/peers/install.sh --build-only  build with what is there; no network
#
# Sources: Debian packages (apt-get), PyPI (pip) and crates.io (cargo), nothing else. Everything that is not a Debian
# package goes to bench/peers/build. Run it again whenever you like: what is there is kept. A peer that cannot be had is
# named at the end and left out of the comparison; that is no failure.
set -u

UCX_WHEEL=libucx-cu12 UCX_VERSION=1.22.0 # NVIDIA's build of UCX; the CUDA in it stays unused
GASNET_CRATE=gex-sys GASNET_CRATE_VERSION=0.1.0 # carries the sources of GASNet-EX 2021.3.0

here=$(cd "$(dirname "$0")" && pwd)
build=$here/build
log=$build/install.log
missing=

case ${1-} in
    '') download=yes ;;
    --build-only) download= ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; [ "$1" = --help ]; exit $(( $? * 2 )) ;;
esac

mkdir -p "$build"
: >"$log"

have() { command -v "$1" >/dev/null 2>&1; }
say() { printf '%s\n' "$*"; }
lacks() { missing="$missing  $1: $2
"; }
run() { # quietly and politely: other work may be going on
    { say "+ $*"; nice -n 10 "$@"; } >>"$log" 2>&1
}

debian_packages() {
    if ! have apt-get; then
        say "no apt-get here: install UCX, Open MPI, MPICH and libfabric your own way"
        return
    fi
    packages=
    for p in gcc make pkg-config ucx-utils openmpi-bin libopenmpi-dev mpich libmpich-dev libfabric-bin \
             libfabric-dev autoconf automake perl python3-venv; do
        dpkg -s "$p" >/dev/null 2>&1 || packages="$packages $p"
    done
    [ -n "$packages" ] || return 0
    root=
    [ "$(id -u)" = 0 ] || root=sudo
    say "apt-get install:$packages"
    run $root apt-get update
    for p in $packages; do # one by one: a package that does not exist must not cost us the others
        run $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$p" ||
            say "  $p: not installed (see $log)"
    done
}

ucx_wheel() {
    [ -x "$build/ucx/libucx/bin/ucx_perftest" ] && return
    [ -n "$download" ] || return
    say "pip download: $UCX_WHEEL $UCX_VERSION"
    run python3 -m pip download --no-deps --dest "$build/wheels" "$UCX_WHEEL==$UCX_VERSION" &&
        run python3 -m zipfile -e "$build/wheels/"*.whl "$build/ucx" &&
        chmod +x "$build/ucx/libucx/bin/"* && # a zip extracted by Python has no executables
        find "$build/ucx" '(' -name '*.a' -o -name '*cuda.so*' ')' -delete
    rm -rf "$build/wheels"
}

gasnet() {
    [ -f "$build/gasnet-ex/lib/pkgconfig/gasnet-smp-seq.pc" ] && return
    work=$build/gasnet-work
    if [ -n "$download" ] && have cargo; then
        say "cargo vendor: $GASNET_CRATE $GASNET_CRATE_VERSION, and build the GASNet-EX in it (a minute or two)"
        mkdir -p "$work/src"
        : >"$work/src/lib.rs"
        cat >"$work/Cargo.toml" <<EOF
[package]
name = "gasnet-sources"
version = "0.0.0"
edition = "2021"
[dependencies]
$GASNET_CRATE = "=$GASNET_CRATE_VERSION"
[workspace]
EOF
        (cd "$work" && run cargo vendor --quiet vendor) || return
        sources=$work/vendor/$GASNET_CRATE/gasnet
        (cd "$sources" && run sh ./Bootstrap -y) || return
        mkdir -p "$work/obj"
        # smp conduit, one thread, PSHM: processes of one host, each other's segments mapped. Optimised, no debug checks.
        (cd "$work/obj" &&
            run sh "$sources/configure" --prefix="$build/gasnet-ex" --disable-auto-conduit-detect --enable-smp --enable-seq \
                --disable-par --disable-parsync --enable-pshm --disable-debug &&
            run make seq && run make install)
        [ -f "$build/gasnet-ex/lib/pkgconfig/gasnet-smp-seq.pc" ] && rm -rf "$work"
    fi
}

compile() { # compile NAME COMPILER SOURCE [FLAGS...]
    name=$1 compiler=$2 source=$here/$3
    shift 3
    run "$compiler" -std=gnu11 -O3 -Wall -Wextra -o "$build/$name" "$source" "$@"
}

[ -z "$download" ] || debian_packages
ucx_wheel
gasnet

status=0
for own in floors bare_loop link; do
    compile "$own" cc "$own.c" || { say "$own: does not compile (see $log)"; status=1; }
done

have ucx_perftest || lacks "UCX (system)" "no ucx_perftest; Debian has it in ucx-utils"
[ -x "$build/ucx/libucx/bin/ucx_perftest" ] || lacks "UCX $UCX_VERSION" "the PyPI wheel $UCX_WHEEL could not be had"

for mpi in openmpi mpich; do # Debian lets both stand side by side under these names
    if have "mpicc.$mpi"; then
        compile "mpi-$mpi" "mpicc.$mpi" mpi.c || lacks "$mpi" "mpi.c does not compile (see $log)"
    else
        lacks "$mpi" "no mpicc.$mpi; Debian has it in lib$mpi-dev"
    fi
done

if have pkg-config && pkg-config --exists libfabric; then
    # shellcheck disable=SC2046,SC2086  # These are several flags.
    compile ofi cc ofi.c $(pkg-config --cflags --libs libfabric) || lacks libfabric "ofi.c does not compile (see $log)"
else
    lacks libfabric "no libfabric.pc; Debian has it in libfabric-dev"
fi

if [ -f "$build/gasnet-ex/lib/pkgconfig/gasnet-smp-seq.pc" ]; then
    flags=$(PKG_CONFIG_PATH=$build/gasnet-ex/lib/pkgconfig pkg-config --cflags --libs gasnet-smp-seq)
    # shellcheck disable=SC2046,SC2086  # These are several flags.
    compile gasnet cc gasnet.c $flags || lacks GASNet-EX "gasnet.c does not compile (see $log)"
else
    lacks GASNet-EX "its sources (crate $GASNET_CRATE) could not be had or built (see $log)"
fi

if [ -n "$missing" ]; then
    say "could not be had:"
    printf '%s' "$missing"
else
    say "all peers are there"
fi
exit $status
