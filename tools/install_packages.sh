#!/usr/bin/env bash
# install_packages.sh SECTION...: installs these sections of tools/debian-packages.txt unless they are there already.
set -euo pipefail
source "$(dirname "$0")/common.sh"
[ $# -gt 0 ] || die "usage: install_packages.sh SECTION... (sections: build, test, night, peers)"

wanted=()
for section in "$@"; do
  mapfile -t -O "${#wanted[@]}" wanted < <(
    awk -v section="[$section]" '/^\[/ { inside = $0 == section; next } inside && NF && !/^#/' "$root/tools/debian-packages.txt")
done
[ ${#wanted[@]} -gt 0 ] || die "no such section: $*"

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  printf 'This system has no apt-get. Install what these Debian packages hold, then run the steps by hand (see README.md):\n' >&2
  printf '  %s\n' "${wanted[@]}" >&2
  exit 2
fi

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "needs root or sudo to install: ${missing[*]}"
  as_root=(sudo)
fi
note "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >&2 || die "apt-get update failed: is the network there? Packages needed: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 ||
  die "apt-get install failed for: ${missing[*]}"
