#!/usr/bin/env bash
# bench.sh GROUP [ARGUMENT...]: builds preset release and prints one JSON line per figure of the group. Each group is one
# script, tools/bench/GROUP.py. Peers are used when tools/setup_peers.sh has put them there; otherwise there is no ratio.
set -euo pipefail
source "$(dirname "$0")/common.sh"

groups=$(cd "$root/tools/bench" && for script in *.py; do [ "$script" = figures.py ] || printf ' %s' "${script%.py}"; done)
if [ $# -eq 0 ] || [ "$1" = --help ]; then
  printf 'usage: tools/bench.sh GROUP [ARGUMENT...]\ngroups:%s\n' "$groups" >&2
  printf '%s\n' 'cpu takes an estimated 55 minutes with the peers, kernels took 2, and the build.' \
    'Models: tools/fetch_model.sh NAME. Peers, for ratios: tools/setup_peers.sh. docs/benchmarks.md says how they are measured.' >&2
  [ "${1:-}" = --help ] && exit 0 || exit 2
fi
group=$1
shift
[[ " $groups " == *" $group "* ]] || { printf 'bench.sh: no group %s; there are:%s\n' "$group" "$groups" >&2; exit 2; }

"$root/tools/install_packages.sh" build
cd "$root"
if [ "$group" != build ]; then
  cmake --preset release >&2
  cmake --build --preset release -j "$(build_jobs)" >&2
fi
exec python3 -B "tools/bench/$group.py" "$@"
