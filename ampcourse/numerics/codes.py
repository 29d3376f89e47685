"""The arithmetic of bit patterns behind `Format`: vectorised, and in chunks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CHUNK = 1 << 13  # 64 KiB of float64 for each of a few temporaries
_FRACTION64, _BIAS64 = 52, 1023
_MAGNITUDE64 = np.int64(2**63 - 1)
_INFINITY64 = np.int64(0x7FF << _FRACTION64)  # also the mask of float64's exponent field


class Codec:
    """Rounds, encodes and decodes for one format. A *code* is a bit pattern without its sign, as int64.

    Codes are in the order of the values. The code after the largest finite one is infinity, or NaN in a format without
    infinities.
    """

    def __init__(self, exponent_bits: int, fraction_bits: int, infinities: bool) -> None:
        bias = 2 ** (exponent_bits - 1) - 1
        self.fraction_bits, self.infinities = fraction_bits, infinities
        self.sign_shift = exponent_bits + fraction_bits
        self.shift = _FRACTION64 - fraction_bits
        self.top = (2**exponent_bits - 1) << fraction_bits  # exponent field all ones, fraction zero
        self.beyond = self.top if infinities else self.top + 2**fraction_bits - 1
        self.rebias = (_BIAS64 - bias) << fraction_bits
        self.least_normal = 2.0 ** (1 - bias)
        self.least_subnormal = 2.0 ** (1 - bias - fraction_bits)
        self.largest = float(np.int64((self.beyond - 1 + self.rebias) << self.shift).view(np.float64))
        self.above_all = 4 * self.largest
        self.overflow = np.inf if infinities else np.nan
        self.dtype = np.uint8 if self.sign_shift < 8 else np.uint16 if self.sign_shift < 16 else np.uint32

    def round(self, values: np.ndarray) -> np.ndarray:
        """Float64 values rounded to the format, to nearest even."""
        return _chunked(lambda x: np.copysign(self._round(x), x), values, np.float64)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Bit patterns of float64 values, rounded to nearest even."""
        return _chunked(self._encode, values, self.dtype)

    def decode(self, patterns: np.ndarray) -> np.ndarray:
        """Float64 values of int64 bit patterns."""
        return _chunked(self._decode, patterns, np.float64)

    def next_up(self, values: np.ndarray) -> np.ndarray:
        """The value one step above the rounded one; infinity stays."""
        return _chunked(lambda x: self._decode(self._up(self._encode(x))), values, np.float64)

    def _round(self, values: np.ndarray) -> np.ndarray:
        """Magnitudes, rounded: float64's own addition does it, once its last place is that of the format.

        Adding 2**52 units in the format's last place leaves float64 no bit below it, so that the sum is rounded there,
        once and to nearest even; taking them away again is exact.
        """
        magnitude = np.abs(values)
        np.minimum(magnitude, self.above_all, out=magnitude)  # so that nothing below overflows; NaN stays
        align = (magnitude.view(np.int64) & _INFINITY64).view(np.float64)  # 2**exponent
        align *= 2.0**self.shift
        np.maximum(align, 2.0**_FRACTION64 * self.least_subnormal, out=align)
        magnitude += align
        magnitude -= align
        too_large = magnitude > self.largest
        if too_large.any():
            magnitude[too_large] = self.overflow
        return magnitude

    def _encode(self, values: np.ndarray) -> np.ndarray:
        magnitude = self._round(values)
        code = magnitude.view(np.int64) >> self.shift
        code -= self.rebias
        np.minimum(code, self.beyond, out=code)  # float64's infinity has a higher exponent
        small = magnitude < self.least_normal
        if small.any():
            code[small] = magnitude[small] / self.least_subnormal
        nan = np.isnan(magnitude)
        if nan.any():
            code[nan] = self._nan(values.view(np.int64)[nan] & _MAGNITUDE64)
        code |= np.signbit(values).astype(np.int64) << self.sign_shift
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
            bits[small] = (code[small] * self.least_subnormal).view(np.int64)
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
