"""Kernels that nothing gets out of: what they see, what they may use, and the proof that this machine holds them."""
