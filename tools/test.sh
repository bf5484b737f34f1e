#!/usr/bin/env bash
# test.sh [--night]: builds preset dev and runs every test, then the parsers, allocator and tokenizer under ASan and UBSan,
# and the threads under TSan.
# The last line is "N passed, N failed, N skipped". --night also runs the tests that take hours.
set -euo pipefail
source "$(dirname "$0")/common.sh"

usage="usage: tools/test.sh [--night]"
export KVPAGE_NIGHT=0
while [ $# -gt 0 ]; do
  case $1 in
    --night) KVPAGE_NIGHT=1 ;;
    --help) printf '%s\n' "$usage"; exit 0 ;;
    *) printf 'test.sh: unknown argument %s\n%s\n' "$1" "$usage" >&2; exit 2 ;;
  esac
  shift
done

# Neither messages nor text files depend on the language of whoever runs this.
export LC_ALL=C.UTF-8

# A step that fails before the tests are counted is one failure, on the last line like every other.
trap 'printf "0 passed, 1 failed, 0 skipped\n"' EXIT

sections=(build test)
[ "$KVPAGE_NIGHT" = 0 ] || sections+=(night)
"$root/tools/install_packages.sh" "${sections[@]}"
for model in smollm2 gemma3 qwen0.5b; do
  "$root/tools/fetch_model.sh" "$model" >/dev/null
done
cd "$root"

run_tests() { # PRESET TARGET [CTEST ARGUMENT...]: builds, tests, leaves build/PRESET/{tests.json,results.xml}
  local preset=$1 target=$2
  shift 2
  note "preset $preset: building with $(build_jobs) jobs"
  cmake --preset "$preset"
  cmake --build --preset "$preset" --target "$target" -j "$(build_jobs)"
  note "preset $preset: testing"
  ctest --preset "$preset" --show-only=json-v1 "$@" >"build/$preset/tests.json"
  # Failures are counted from the results, so that every run is always reported.
  ctest --preset "$preset" -j "$(nproc)" --output-junit "$root/build/$preset/results.xml" "$@" || true
}

run_tests dev all
run_tests asan kvpage_sanitized_tests -L '^sanitize$'
run_tests tsan kvpage_race_tests -L '^race$'
exec python3 tools/count_results.py build/dev build/asan build/tsan
