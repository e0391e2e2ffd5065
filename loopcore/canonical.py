"""Canonical JSON (RFC 8785) and the digests that name values.

There are no floating-point numbers in loopcore's values, all keys are ASCII and no integer exceeds
2^53-1. Under those three conditions msgspec's sorted encoding *is* RFC 8785, byte for byte: keys in
order, no white space, minimal escapes.

Source: RFC 8785; spec evaluator, section 1.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")

# The largest integer that every JSON implementation prints alike.
INTEGER_MAX = 2**53 - 1


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a JSON value or of one of our structs."""
    return _ENCODER.encode(value)


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of bytes that are already canonical, as 64 lowercase hexadecimals."""
    return sha256(data).hexdigest()


def digest(value: object) -> str:
    """Return the digest that names a value: the SHA-256 of its canonical bytes."""
    return digest_bytes(canonical(value))
