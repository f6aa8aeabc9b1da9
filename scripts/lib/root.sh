# The made root: a Debian 13 tree in the cache directory, for machines whose GStreamer is too old and for the laboratory.
# Source it after common.sh.
# shellcheck shell=bash disable=SC2154

packages () { awk -v k="$1" '$1 == k { print $2 }' "$top/scripts/lib/packages.list"; }

# the name says what is in it: the package list and the two files that make it
root_dir () {
  printf '%s/root-%s\n' "$cache" \
    "$(cat "$top/scripts/lib/packages.list" "$top/scripts/lib/root-make.sh" "$top/scripts/lib/root-kernel.sh" | sha256sum | cut -c1-12)"
}

# runs a command as root; for an ordinary user of a user namespace in which the made root's files are its own. What it mounts
# goes with it, however it ends.
as_root_of_tree () {
  if am_root; then unshare --mount -- "$@"; else unshare --user --map-root-user --map-auto --mount -- "$@"; fi
}

# makes the root unless it is there; prints nothing on success but what it did
ensure_root () {
  local dir lock
  dir=$(root_dir)
  if [ -d "$dir" ]; then touch "$dir" && return; fi # the time of its last use, for remove_unused_roots
  need mmdebstrap mmdebstrap "makes the Debian 13 root in $cache"
  am_root || need newuidmap uidmap "lets an ordinary user make the Debian 13 root"
  mkdir -p "$cache"
  exec {lock}> "$cache/root.lock"
  flock -n "$lock" || { say "another run is making the root: waiting for it"; flock "$lock"; }
  if [ ! -d "$dir" ]; then
    remove_partial_roots
    trap remove_partial_roots EXIT # also when interrupted: nothing half-made stays
    step "make the Debian 13 root ($(packages build | wc -l) packages to build with, $(packages lab | wc -l) for the laboratory and its kernel)" \
      bash "$top/scripts/lib/root-make.sh" "$dir.partial" || die "the Debian 13 root could not be made (its log is above)"
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
  command -v newuidmap > /dev/null || need newuidmap uidmap "lets an ordinary user enter the Debian 13 root"
  exec unshare --user --map-root-user --map-auto --mount --propagation private -- \
    bash "$top/scripts/lib/root-enter.sh" "$(root_dir)" "$PWD" "$top" "$@"
}
