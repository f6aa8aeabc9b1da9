#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The laboratory: a virtual machine with real kernel devices. Runs inside the made Debian 13 root; see docs/laboratory.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from gstzclab import client  # noqa: E402

if __name__ == "__main__":
    sys.exit(client.main(sys.argv[1:]))
