"""Kernels forked from one process that has loaded TensorFlow, Keras and the rest: as tight as a fresh sandbox."""

from ampcourse.grading.template.starter import TemplateKernel, TemplateStarter

__all__ = ["TemplateKernel", "TemplateStarter"]
