"""`audit`: what mixed precision will do to a model, found before it is trained.

The model (and, where given, the training step) is traced into a graph. Every check reads that graph, the numbers that
a sample batch leaves in it, or the optimizer's settings; none goes by the name of a layer or a variable.
"""

from ampcourse.amp.auditing.auditor import audit
from ampcourse.amp.auditing.report import AuditReport, Hazard

__all__ = ["AuditReport", "Hazard", "audit"]
