#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes files part of the plugin, as what a C++ source includes.

embed.py source ROOT FILE OUTPUT DEPFILE   a string literal: FILE with the project's own headers in their places
embed.py bytes OUTPUT [FILE]               the numbers of an array's initialiser
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
END = 'kernel-source'


def flatten(root, name, seen, once):
    """FILE's text, for compilers that have no files; headers of the system are left to them."""
    lines = [f'#line 1 "{name}"']
    path = root / name
    text = path.read_text(encoding='utf-8')
    seen.append(path)
    if '#pragma once' in text:
        once.add(name)
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include and include[1] not in once:
            lines += flatten(root, include[1], seen, once)
            lines.append(f'#line {number + 1} "{name}"')
        elif include or line.strip() == '#pragma once':
            lines.append('')
        else:
            lines.append(line)
    return lines


def embed_source(root, file, output, depfile):
    root = Path(root).resolve()
    seen = []
    text = '\n'.join(flatten(root, str(Path(file).resolve().relative_to(root)), seen, set())) + '\n'
    Path(output).write_text(f'R"{END}({text}){END}"\n', encoding='utf-8')
    escaped = (str(path).replace(' ', '\\ ') for path in seen)
    Path(depfile).write_text(f'{output}: {" ".join(escaped)}\n', encoding='utf-8')


def embed_bytes(output, *files):
    data = b''.join(Path(file).read_bytes() for file in files)
    rows = (','.join(map(str, data[i:i + 32])) + ',\n' for i in range(0, len(data), 32))
    Path(output).write_text(''.join(rows), encoding='utf-8')


if __name__ == '__main__':
    {'source': embed_source, 'bytes': embed_bytes}[sys.argv[1]](*sys.argv[2:])
