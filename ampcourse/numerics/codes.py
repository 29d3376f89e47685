"""The arithmetic of bit patterns behind `Format`: vectorised, and in chunks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CHUNK = 1 << 14  # 128 KiB of float64 for each of about six temporaries
_FRACTION64, _BIAS64 = 52, 1023
_MAGNITUDE64 = np.int64(2**63 - 1)
_INFINITY64 = np.int64(0x7FF << _FRACTION64)


class Codec:
    """Encodes and decodes one format. A *code* is a bit pattern without the sign, as int64; codes order as values do.

    The code after the largest finite one is infinity, or NaN in a format without infinities.
    """

    def __init__(self, exponent_bits: int, fraction_bits: int, infinities: bool) -> None:
        bias = 2 ** (exponent_bits - 1) - 1
        self.fraction_bits, self.infinities = fraction_bits, infinities
        self.sign_shift = exponent_bits + fraction_bits
        self.shift = _FRACTION64 - fraction_bits
        self.top = (2**exponent_bits - 1) << fraction_bits  # exponent field all ones, fraction zero
        self.beyond = self.top if infinities else self.top + 2**fraction_bits - 1
        self.rebias = (_BIAS64 - bias) << fraction_bits
        self.least_subnormal = 2.0 ** (1 - bias - fraction_bits)
        self.least_normal64 = np.float64(2.0 ** (1 - bias)).view(np.int64)
        # Added to a value below the least normal, this makes float64's own last place the least subnormal.
        self.align = 2.0**_FRACTION64 * self.least_subnormal
        self.align64 = np.float64(self.align).view(np.int64)
        self.dtype = np.uint8 if self.sign_shift < 8 else np.uint16 if self.sign_shift < 16 else np.uint32

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Bit patterns of float64 values, rounded to nearest even."""
        return _chunked(self._encode, values, self.dtype)

    def decode(self, patterns: np.ndarray) -> np.ndarray:
        """Float64 values of int64 bit patterns."""
        return _chunked(self._decode, patterns, np.float64)

    def round(self, values: np.ndarray) -> np.ndarray:
        """Float64 values rounded to the format."""
        return _chunked(lambda x: self._decode(self._encode(x)), values, np.float64)

    def next_up(self, values: np.ndarray) -> np.ndarray:
        """The value one step above the rounded one; infinity stays."""
        return _chunked(lambda x: self._decode(self._up(self._encode(x))), values, np.float64)

    def _encode(self, values: np.ndarray) -> np.ndarray:
        bits = values.view(np.int64)
        magnitude = bits & _MAGNITUDE64
        # Half a unit is added, less one where the last kept bit is 0: so a tie goes to the even neighbour, and a carry
        # runs into the exponent, which is where it belongs.
        code = magnitude >> self.shift
        code &= 1
        code += magnitude
        code += 2 ** (self.shift - 1) - 1
        code >>= self.shift
        code -= self.rebias
        small = magnitude < self.least_normal64
        if small.any():
            aligned = magnitude.view(np.float64) + self.align
            np.copyto(code, aligned.view(np.int64) - self.align64, where=small)
        np.minimum(code, self.beyond, out=code)
        nan = magnitude > _INFINITY64
        if nan.any():
            code[nan] = self._nan(magnitude[nan])
        code |= (bits < 0).astype(np.int64) << self.sign_shift
        return code

    def _nan(self, magnitude: np.ndarray) -> np.ndarray:
        if not self.infinities:
            return np.full_like(magnitude, self.beyond)
        payload = (magnitude - _INFINITY64) >> self.shift
        # A payload that does not fit must not turn a NaN into an infinity: it becomes the plain quiet NaN.
        return self.top + np.where(payload == 0, 2 ** (self.fraction_bits - 1), payload)

    def _decode(self, patterns: np.ndarray) -> np.ndarray:
        code = patterns & (2**self.sign_shift - 1)
        bits = (code + self.rebias) << self.shift
        small = code < 2**self.fraction_bits
        if small.any():
            np.copyto(bits, (code * self.least_subnormal).view(np.int64), where=small)
        special = code >= self.beyond
        if special.any():
            payload = (code[special] - self.top) << self.shift
            bits[special] = _INFINITY64 + (payload if self.infinities else 2 ** (_FRACTION64 - 1))
        bits |= (patterns >> self.sign_shift) << 63
        return bits.view(np.float64)

    def _up(self, patterns: np.ndarray) -> np.ndarray:
        sign = patterns >> self.sign_shift
        code = patterns & (2**self.sign_shift - 1)
        stepped = np.where(sign == 0, np.minimum(code + 1, self.beyond), code - 1)
        sign = np.where(code == 0, 0, sign)  # above -0.0, as above 0.0, lies the least subnormal
        return np.abs(stepped) | (sign << self.sign_shift)


def _chunked(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray, dtype: type) -> np.ndarray:
    flat = np.ascontiguousarray(values).reshape(-1)
    out = np.empty(flat.size, dtype)
    with np.errstate(all="ignore"):  # a signalling NaN is data here, not an accident
        for start in range(0, flat.size, CHUNK):
            out[start : start + CHUNK] = function(flat[start : start + CHUNK])
    return out.reshape(values.shape)
