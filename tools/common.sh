# shellcheck shell=bash disable=SC2034
# What every script of tools/ shares; sourced, never run. Sets `root`, the top folder of the checkout.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { # MESSAGE...: ends the script with exit code 1
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

note() { printf '== %s\n' "$*" >&2; }

# Containers and services may start a program without a home; models, caches and pip want one.
if [ -z "${HOME:-}" ]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6) || true
  [ -n "$HOME" ] || die "HOME is not set, and user $(id -u) has no home: set HOME to a folder that can be written"
fi
export HOME

build_jobs() { # parallel compilations: one per core, and per GiB of memory that the system and the container have
  local cores gib limit file
  cores=$(nproc)
  gib=$(awk '/^MemTotal:/ { print int($2 / 1048576) }' /proc/meminfo)
  for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    if [ -r $file ] && limit=$(<$file) && [[ $limit =~ ^[0-9]+$ ]] && [ $((limit >> 30)) -lt "$gib" ]; then gib=$((limit >> 30)); fi
  done
  echo $((gib < 1 ? 1 : gib < cores ? gib : cores))
}
