#compdef zerocopy-inspect
# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of zerocopy-inspect for zsh. What may follow which command is compared with the tool's help by a test.

local -a commands profile device connector json timeout help
commands=(
  'caps:what a display takes'
  'explain:which plane would show frames of given caps, or why none does'
  'negotiate:negotiate between a launch fragment and a display'
  'compare:what two displays take differently'
  'record:write the profile of a display'
  'matrix:negotiate fragments with all profiles of a folder'
)
profile=('(-p --profile)'{-p+,--profile=}'[the display that a file describes]:profile:_files')
device=('(-d --device)'{-d+,--device=}'[card node]:node:(/dev/dri/card*(N))')
connector=('(-c --connector)'{-c+,--connector=}'[output by name or id]:output:')
json=('(-j --json)'{-j,--json}'[write JSON]')
timeout=('(-t --timeout)'{-t+,--timeout=}'[give up after so many seconds]:seconds:')
help=('(-h --help)'{-h,--help}'[show the options]')

if (( CURRENT == 2 )); then
  _describe -t commands command commands
  _arguments '--help[list the commands]' '--version[show the version]'
  return
fi
local command=$words[2]
shift words
(( CURRENT-- ))
case $command in
  caps) _arguments $profile $device $connector $json $help ;;
  explain) _arguments $profile $device $connector '--target=[size on the display]:WIDTHxHEIGHT:' $json $help ':caps:' ;;
  negotiate) _arguments $profile $device $connector $timeout $json $help ':fragment:' ;;
  compare) _arguments $connector $json $help ':first profile:_files' ':second profile:_files' ;;
  record) _arguments $profile $device '(-o --output)'{-o+,--output=}'[write to a file]:file:_files' $json $help ;;
  matrix) _arguments $timeout '--svg=[heat map as SVG]:file:_files' '--html=[heat map as HTML]:file:_files' $json $help ':folder:_files -/' '*:fragment:' ;;
esac
