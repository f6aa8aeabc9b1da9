# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages between client, server and the guest's agent: a line of JSON, then as many raw bytes as its member "n" says."""

import json


def encode(message, payload=b""):
    """The bytes of one message; message is a dict, payload raw bytes."""
    if payload:
        message = dict(message, n=len(payload))
    return json.dumps(message).encode() + b"\n" + payload


class Decoder:
    """Takes bytes as they come, gives complete messages as (dict, payload)."""

    def __init__(self):
        self.buffer = bytearray()

    def feed(self, data):
        self.buffer += data
        while True:
            end = self.buffer.find(b"\n")
            if end < 0:
                return
            message = json.loads(self.buffer[:end])
            total = end + 1 + message.get("n", 0)
            if len(self.buffer) < total:
                return
            payload = bytes(self.buffer[end + 1:total])
            del self.buffer[:total]
            yield message, payload
