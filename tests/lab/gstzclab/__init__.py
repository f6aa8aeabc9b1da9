# SPDX-License-Identifier: LGPL-2.1-or-later
"""Host side of the laboratory: set-up, the server that owns the virtual machine, and its client."""
