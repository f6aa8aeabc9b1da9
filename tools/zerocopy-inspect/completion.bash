# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of zerocopy-inspect for bash. What may follow which command is compared with the tool's help by a test.
_zerocopy_inspect () {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' i
  local -A options=(
    [caps]='--profile --device --connector --json --help'
    [explain]='--profile --device --connector --target --json --help'
    [negotiate]='--profile --device --connector --timeout --json --help'
    [compare]='--connector --json --help'
    [record]='--profile --device --output --json --help'
    [matrix]='--timeout --svg --html --json --help'
  )
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "caps explain negotiate compare record matrix --help --version" -- "$cur")
    return
  fi
  command=${COMP_WORDS[1]}
  # bash makes a word of its own of '='
  if [ "$cur" = = ]; then cur=''; elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  if [ "${COMP_WORDS[COMP_CWORD]}" = = ]; then prev=${COMP_WORDS[COMP_CWORD-1]}; fi
  case $prev in
    --profile | -p | --output | -o | --svg | --html)
      compopt -o filenames 2> /dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return ;;
    --device | -d)
      mapfile -t COMPREPLY < <(compgen -G '/dev/dri/card*' | while IFS= read -r i; do [[ $i == "$cur"* ]] && printf '%s\n' "$i"; done)
      return ;;
    --connector | -c)
      mapfile -t COMPREPLY < <(for i in /sys/class/drm/card*-*; do [ -e "$i" ] && i=${i##*/card} && printf '%s\n' "${i#*-}"; done | sort -u \
        | while IFS= read -r i; do [[ $i == "$cur"* ]] && printf '%s\n' "$i"; done)
      return ;;
    --timeout | -t | --target) return ;;
  esac
  case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "${options[$command]:-}" -- "$cur") ;;
    *) case $command in
         compare)
           compopt -o filenames 2> /dev/null
           mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
         matrix)
           compopt -o filenames 2> /dev/null
           mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
       esac ;;
  esac
}
complete -F _zerocopy_inspect zerocopy-inspect
