#!/usr/bin/env bash
# quickstart.sh [--no-model | --model FILE] [--prompt TEXT]: from a bare Debian 12 to a streamed answer. Safe to run again.
set -euo pipefail
source "$(dirname "$0")/common.sh"

usage="usage: tools/quickstart.sh [--no-model | --model FILE] [--prompt TEXT]
  installs what it needs, builds build/release/bin/kvpage, fetches SmolLM2-135M-Instruct and streams its answer
  --no-model     only install and build
  --model FILE   use this GGUF file; nothing is fetched
  --prompt TEXT  ask this instead"
model=
fetch=yes
prompt="Name three things that a paged key-value cache is good for."
while [ $# -gt 0 ]; do
  case $1 in
    --no-model) fetch=no ;;
    --model) [ $# -ge 2 ] || die "--model needs a file"; model=$2; shift ;;
    --prompt) [ $# -ge 2 ] || die "--prompt needs a text"; prompt=$2; shift ;;
    --help) printf '%s\n' "$usage"; exit 0 ;;
    *) printf 'quickstart.sh: unknown argument %s\n%s\n' "$1" "$usage" >&2; exit 2 ;;
  esac
  shift
done
[ -z "$model" ] || [ -f "$model" ] || die "no such file: $model"
[ -z "$model" ] || model=$(realpath "$model")

"$root/tools/install_packages.sh" build
cd "$root"
note "building build/release/bin/kvpage with $(build_jobs) jobs"
cmake --preset release >&2
cmake --build --preset release --target kvpage_cli -j "$(build_jobs)" >&2
if [ -z "$model" ] && [ $fetch = no ]; then
  note "built; next: build/release/bin/kvpage run --model FILE --prompt TEXT"
  exit 0
fi
[ -n "$model" ] || model=$(tools/fetch_model.sh smollm2 | tail -n 1)
note "build/release/bin/kvpage run --model $model --prompt \"$prompt\""
exec build/release/bin/kvpage run --model "$model" --prompt "$prompt"
