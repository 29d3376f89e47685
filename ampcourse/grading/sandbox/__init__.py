"""Kernels that nothing gets out of: what they see, what they may use, and the proof that this machine holds them."""

from ampcourse.grading.sandbox.choosing import choose_starter
from ampcourse.grading.sandbox.probe import Layer, Layers, probe
from ampcourse.grading.sandbox.starters import SandboxStarter
from ampcourse.grading.sandbox.unsafe import UnsafeStarter

__all__ = ["Layer", "Layers", "SandboxStarter", "UnsafeStarter", "choose_starter", "probe"]
