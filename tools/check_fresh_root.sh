#!/usr/bin/env bash
# check_fresh_root.sh [OPTION]...: runs both commands of README.md in a Debian 12 that has nothing but what is essential, so that
# tools/debian-packages.txt is complete and nothing of this machine is needed. Needs root, debootstrap and the network.
set -euo pipefail
source "$(dirname "$0")/common.sh"

usage="usage: tools/check_fresh_root.sh [--only packages|quickstart|test|night] [--root DIR] [--models DIR] [--keep]
  makes a minimal Debian 12 in a folder, copies this checkout into it, and runs tools/quickstart.sh and tools/test.sh there
  --only STEP    only this: packages installs all sections of tools/debian-packages.txt and says which programs of the
                 tests are missing; night is tools/test.sh --night
  --root DIR     make it there, and keep it; what a run before has made there (packages, builds, models) is used again
  --models DIR   take the models from there instead of fetching them
  --keep         do not remove it in the end
  mirror, proxies and certificates are those of this machine's apt; without apt, what debootstrap takes"
steps=(quickstart test)
target=
models=
keep=no
while [ $# -gt 0 ]; do
  case $1 in
    --only) [ $# -ge 2 ] || die "--only needs a step"; steps=("$2"); shift ;;
    --root) [ $# -ge 2 ] || die "--root needs a folder"; target=$2; keep=yes; shift ;;
    --models) [ $# -ge 2 ] || die "--models needs a folder"; models=$(realpath "$2"); shift ;;
    --keep) keep=yes ;;
    --help) printf '%s\n' "$usage"; exit 0 ;;
    *) printf 'check_fresh_root.sh: unknown argument %s\n%s\n' "$1" "$usage" >&2; exit 2 ;;
  esac
  shift
done
case ${steps[0]} in
  packages | quickstart | test | night) ;;
  *) die "--only ${steps[0]}: the steps are packages, quickstart, test and night" ;;
esac
[ -z "$models" ] || [ -d "$models" ] || die "no such folder: $models"
[ "$(id -u)" -eq 0 ] || die "needs root: debootstrap and chroot do"
for program in debootstrap unshare chroot; do
  command -v $program >/dev/null || die "needs $program; on Debian: apt-get install debootstrap util-linux coreutils"
done

# Mounts and processes of the root live in namespaces of their own: they end with this script, however it ends.
if [ -z "${KVPAGE_FRESH_ROOT:-}" ]; then
  [ -n "$target" ] || target=$(mktemp -d "${TMPDIR:-/var/tmp}/kvpage-root.XXXXXX")
  mkdir -p "$target"
  target=$(realpath "$target")
  [ $keep = yes ] || trap 'rm -rf --one-file-system "$target"' EXIT
  export KVPAGE_FRESH_ROOT=$target
  arguments=(--root "$target")
  [ -z "$models" ] || arguments+=(--models "$models")
  failed=0
  for step in "${steps[@]}"; do
    unshare --mount --pid --fork --kill-child --propagation private "$0" --only "$step" "${arguments[@]}" || failed=1
    [ $failed = 0 ] || break
  done
  [ $keep = no ] || note "kept: $target (use it again with --root $target)"
  [ $failed = 0 ] && note "in a fresh Debian 12: ${steps[*]}: passed" || note "in a fresh Debian 12: $step: FAILED"
  exit $failed
fi
step=${steps[0]}
inside=$target/kvpage

apt_archives() { # "URI RELEASE main" of each archive of Debian 12 that this machine's apt knows
  ! command -v apt-get >/dev/null || apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    grep -E ' bookworm(-updates|-security)? main$' | sort -u || true
}

make_root() {
  [ -e "$target/etc/kvpage-fresh-root" ] && return
  local mirror
  mirror=$(apt_archives | awk '$2 == "bookworm" { print $1; exit }')
  note "a minimal Debian 12 in $target${mirror:+ from $mirror}"
  local include=()
  case $mirror in https:*) include=(--include=ca-certificates) ;; esac
  debootstrap --variant=minbase "${include[@]}" bookworm "$target" ${mirror:+"$mirror"} >&2 || die "debootstrap failed: see $target/debootstrap"
  touch "$target/etc/kvpage-fresh-root"
}

copy_settings() { # how this machine reaches the network, and nothing else
  cp -L /etc/resolv.conf /etc/hosts "$target/etc/" 2>/dev/null || true
  ! command -v apt-config >/dev/null || apt-config dump | grep -E '^Acquire::[^ ]*Proxy ' >"$target/etc/apt/apt.conf.d/proxy" || true
  if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$target/usr/local/share"
    cp -rL /usr/local/share/ca-certificates "$target/usr/local/share/"
  fi
  local sources
  sources=$(apt_archives)
  [ -z "$sources" ] || printf '%s\n' "$sources" | sed 's/^/deb /' >"$target/etc/apt/sources.list"
}

copy_checkout() { # what a clone would have, and changes that are not committed; builds that are there stay
  mkdir -p "$inside"
  find "$inside" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  tar -C "$root" --exclude=./build -cf - . | tar -C "$inside" --no-same-owner -xf -
}

mount_system() {
  mount -t proc proc "$target/proc"
  mount --rbind /sys "$target/sys"
  mount --rbind /dev "$target/dev"
  [ -z "$models" ] && return
  local home=$target/root
  mkdir -p "$home/.cache/kvpage/models"
  cp -u "$models"/*.gguf "$home/.cache/kvpage/models/"
}

in_root() { # COMMAND: with the environment of somebody who has just logged in, and the network settings of this machine
  local kept=() name
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST; do
    [ -z "${!name:-}" ] || kept+=("$name=${!name}")
  done
  # pip brings certificates of its own; those of the machine are needed behind a proxy that has its own.
  kept+=(PIP_CERT=/etc/ssl/certs/ca-certificates.crt)
  chroot "$target" /usr/bin/env -i HOME=/root USER=root TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${kept[@]}" /bin/bash -c "cd /kvpage && $1"
}

# What tests and scripts call by name; `sh` commands are of coreutils and util-linux, which are essential.
programs=(addr2line c++ ccache chromium clang++ cmake ctest flock g++ git llvm-cov-14 llvm-profdata-14 ninja nm objdump patch pkg-config
  python3 script)

check_programs() {
  in_root "tools/install_packages.sh build test night"
  in_root "missing=; for p in ${programs[*]}; do command -v \$p >/dev/null || missing=\"\$missing \$p\"; done
           python3 -c 'import jinja2' || missing=\"\$missing jinja2\"; python3 -m pip --version >/dev/null || missing=\"\$missing pip\"
           [ -z \"\$missing\" ] || { echo \"missing:\$missing\" >&2; exit 1; }"
}

make_root
copy_settings
copy_checkout
mount_system
started=$SECONDS
case $step in
  packages) check_programs ;;
  quickstart) in_root tools/quickstart.sh ;;
  test) in_root tools/test.sh ;;
  night) in_root "tools/test.sh --night" ;;
esac
note "$step: passed in $((SECONDS - started)) s"
