#!/usr/bin/env bash
# root-enter.sh ROOT CWD CLONE CMD…: runs CMD inside the made root, as enter_root calls it: root of a mount namespace of its own.
# The machine's own directories (homes, data, /tmp, devices) are visible under their own paths; only the system is the root's.
set -euo pipefail
root=$1 cwd=$2 clone=$3
shift 3
[ -e "$root/usr/bin/env" ] || { printf '%s\n' "gst-zerocopy: $root is not there: what it is made from has changed meanwhile. Run this again" >&2; exit 1; }

bind () { # a directory or file of the machine, visible in the root under the same path
  [ -e "$1" ] || return 0
  if [ -d "$1" ]; then
    mkdir -p "$root$1"
  else
    mkdir -p "$(dirname "$root$1")"
    [ -e "$root$1" ] || : > "$root$1"
  fi
  mount --rbind "$1" "$root$1"
}

# A directory of the system (usr, etc, var, run) is the root's; a path below it that the caller works in is bound singly.
of_the_system () {
  case $1 in /bin | /boot | /dev | /etc | /lib | /lib32 | /lib64 | /libx32 | /proc | /run | /sbin | /sys | /usr | /var) return 0 ;; esac
  return 1
}
below_the_system () { of_the_system "/$(printf '%s' "$1" | cut -d/ -f2)"; }
# nothing of the root's is there: at most the empty place that an earlier run bound something to
unused () { [ ! -e "$root$1" ] || { [ -f "$root$1" ] && [ ! -s "$root$1" ]; } || { [ -d "$root$1" ] && [ -z "$(ls -A "$root$1")" ]; }; }
bind_if_hidden () { if [ -n "$1" ] && below_the_system "$1" && unused "$1"; then bind "$1"; fi; }

for dir in /*; do
  if [ -d "$dir" ] && [ ! -L "$dir" ] && [ "$dir" != /lost+found ] && ! of_the_system "$dir"; then bind "$dir"; fi
done
mkdir -p "$GSTZC_CACHE"
for dir in "$clone" "$GSTZC_CACHE" /var/tmp; do if below_the_system "$dir"; then bind "$dir"; fi; done
for dir in "${HOME:-}" "${TMPDIR:-}" "${XDG_RUNTIME_DIR:-}" "$cwd"; do bind_if_hidden "$dir"; done
for arg in "$@"; do # files named by absolute path, alone or as the value of a property
  path=${arg#*=}
  case $path in /*) if [ -e "$path" ]; then bind_if_hidden "$path"; fi ;; esac
done
# the machine's CUDA toolkit, if it has one: its compiler makes kernels for the plugin
toolkit=$(readlink -f "${CUDA_HOME:-/usr/local/cuda}" || true)
if [ -x "$toolkit/bin/nvcc" ] && below_the_system "$toolkit"; then
  mkdir -p "$root$toolkit" "$root/usr/local/cuda"
  mount --rbind "$toolkit" "$root/usr/local/cuda"
fi
for dir in /proc /sys /dev; do mount --rbind "$dir" "$root$dir"; done
[ ! -e /etc/resolv.conf ] || { : >> "$root/etc/resolv.conf"; mount --bind "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"; }

unset LD_LIBRARY_PATH LD_PRELOAD PKG_CONFIG_PATH GST_PLUGIN_PATH GST_PLUGIN_PATH_1_0 GST_PLUGIN_SYSTEM_PATH GST_PLUGIN_SYSTEM_PATH_1_0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
# programs inside write to the cache directory, not into the home; all clones share what ccache has
export XDG_CACHE_HOME="$GSTZC_CACHE/xdg" CCACHE_DIR="$GSTZC_CACHE/ccache" CCACHE_NOHASHDIR=1
exec chroot "$root" /usr/bin/env -C "$cwd" "$@"
