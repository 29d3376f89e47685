"""Thirteen models of the kinds that people speed up with mixed precision, with random weights and made-up samples.

ResNet and ViT are those of `ampcourse.models`; BERT, RetinaNet and Swin are keras-hub's; NCF and a GNMT-like translator
are written here. Everything runs on each backend of Keras and downloads nothing. Keras is imported on first use.
"""

from __future__ import annotations

from ampcourse.models.zoo.catalogue import names, workload
from ampcourse.models.zoo.workload import SCALES, Workload, ZooError

__all__ = ["SCALES", "Workload", "ZooError", "names", "workload"]
