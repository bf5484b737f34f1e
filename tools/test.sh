#!/usr/bin/env bash
# test.sh [--night [AREA]]: builds preset dev and runs every test, then the parsers, allocator and tokenizer under ASan and UBSan,
# and the threads under TSan.
# The last line is "N passed, N failed, N skipped". --night also runs the tests that take hours; with AREA, only the tests of tests/AREA.
set -euo pipefail
source "$(dirname "$0")/common.sh"

areas=$(cd "$root/tests" && printf '%s\n' */CMakeLists.txt kernels/*/CMakeLists.txt | sed 's|/CMakeLists.txt$||' | sort | tr '\n' ' ')
usage="usage: tools/test.sh [--night [AREA]]
--night also runs the tests that take hours; with AREA, it runs the tests of tests/AREA alone, also under the sanitizers.
areas: ${areas% }"
export KVPAGE_NIGHT=0
area=
while [ $# -gt 0 ]; do
  case $1 in
    --night)
      KVPAGE_NIGHT=1
      if [ $# -gt 1 ] && [[ $2 != --* ]]; then
        area=$2
        [[ $area =~ ^[^[:space:]]+$ && " $areas" == *" $area "* ]] ||
          { printf 'test.sh: no area "%s" in tests/; there are: %s\n' "$area" "${areas% }" >&2; exit 2; }
        shift
      fi
      ;;
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
  local preset=$1 target=$2 folder=build/$1${area:+/tests/$area}
  shift 2
  note "preset $preset: building with $(build_jobs) jobs"
  cmake --preset "$preset"
  cmake --build --preset "$preset" --target "$target" -j "$(build_jobs)"
  note "preset $preset: testing"
  ctest --test-dir "$folder" --show-only=json-v1 "$@" >"build/$preset/tests.json"
  # Failures are counted from the results, so that every run is always reported.
  ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" --output-junit "$root/build/$preset/results.xml" "$@" || true
  runs+=("build/$preset")
}

# An area's sanitizer runs build its folder alone, and only if one of its programs asks for that (cmake/kvpage_add_test.cmake).
asks_for() { [ -z "$area" ] || grep -q "^[^#]*\b$1\b" "tests/$area/CMakeLists.txt"; }

runs=()
run_tests dev all
folder_target=${area:+tests/$area/all}
if asks_for SANITIZE; then run_tests asan "${folder_target:-kvpage_sanitized_tests}" -L '^sanitize$'; fi
if asks_for RACES; then run_tests tsan "${folder_target:-kvpage_race_tests}" -L '^race$'; fi
exec python3 tools/count_results.py "${runs[@]}"
