# The made root: a Debian 13 tree in the cache directory, for machines whose GStreamer is too old and for the laboratory.
# GSTZC_ROOT=unstable takes one of Debian unstable instead, with newer versions of the same packages and without the laboratory's.
# Source it after common.sh.
# shellcheck shell=bash disable=SC2154

packages () { awk -v k="$1" '$1 == k { print $2 }' "$top/scripts/lib/packages.list"; }

use_root () { # SUITE, also of the scripts that are run from here on
  case $1 in
    trixie) root_suite=$1 root_name="Debian 13 root" ;;
    unstable) root_suite=$1 root_name="Debian unstable root" ;;
    *) die "no root '$1': there are trixie (Debian 13) and unstable" ;;
  esac
  export GSTZC_ROOT=$1
}
use_root "${GSTZC_ROOT:-trixie}"
is_usual_root () { [ "$root_suite" = trixie ]; }

# the name says what is in it: the package list and the two files that make it
root_dir () {
  local prefix=root
  is_usual_root || prefix=root-$root_suite
  printf '%s/%s-%s\n' "$cache" "$prefix" \
    "$(cat "$top/scripts/lib/packages.list" "$top/scripts/lib/root-make.sh" "$top/scripts/lib/root-kernel.sh" | sha256sum | cut -c1-12)"
}

# runs a command as root; for an ordinary user of a user namespace in which the made root's files are its own. What it mounts
# goes with it, however it ends.
as_root_of_tree () {
  if am_root; then unshare --mount -- "$@"; else unshare --user --map-root-user --map-auto --mount -- "$@"; fi
}

# makes the root unless it is there; prints nothing on success but what it did
ensure_root () {
  local dir lock what
  dir=$(root_dir)
  if [ -d "$dir" ]; then touch "$dir" && return; fi # the time of its last use, for remove_unused_roots
  need mmdebstrap mmdebstrap "makes the $root_name in $cache"
  am_root || need newuidmap uidmap "lets an ordinary user make the $root_name"
  mkdir -p "$cache"
  exec {lock}> "$cache/root.lock"
  flock -n "$lock" || { say "another run is making the root: waiting for it"; flock "$lock"; }
  if [ ! -d "$dir" ]; then
    remove_partial_roots
    trap remove_partial_roots EXIT # also when interrupted: nothing half-made stays
    what="$(packages build | wc -l) packages to build with"
    ! is_usual_root || what="$what, $(packages lab | wc -l) for the laboratory and its kernel"
    step "make the $root_name ($what)" bash "$top/scripts/lib/root-make.sh" "$dir.partial" \
      || die "the $root_name could not be made (its log is above)"
    mv "$dir.partial" "$dir" || die "$dir.partial could not be renamed"
    trap - EXIT
    remove_unused_roots
  fi
  flock -u "$lock"
}

# what an interrupted run left; called with the lock held
remove_partial_roots () {
  local dir
  for dir in "$cache"/root-*.partial; do
    [ ! -e "$dir" ] || step "remove an unfinished root" as_root_of_tree rm -rf --one-file-system "$dir"
  done
}

# roots of other package lists that nobody has entered for a month; called with the lock held
remove_unused_roots () {
  local dir
  find "$cache" -mindepth 1 -maxdepth 1 -type d -name 'root-*' -mtime +30 | while IFS= read -r dir; do
    step "remove a root unused for a month" as_root_of_tree rm -rf --one-file-system "$dir"
  done
}

# enter_root CMD…: replaces this shell by CMD in the made root, in the same directory and with the same files
enter_root () {
  if am_root; then
    exec unshare --mount --propagation private -- bash "$top/scripts/lib/root-enter.sh" "$(root_dir)" "$PWD" "$top" "$@"
  fi
  command -v newuidmap > /dev/null || need newuidmap uidmap "lets an ordinary user enter the $root_name"
  exec unshare --user --map-root-user --map-auto --mount --propagation private -- \
    bash "$top/scripts/lib/root-enter.sh" "$(root_dir)" "$PWD" "$top" "$@"
}
