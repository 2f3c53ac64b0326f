"""rackmem: remote memory at rack scale, on a cycle-level model.

>>> import rackmem
>>> machine = rackmem.Machine.load("manycore-ni").set("workload.kind", "sync-read")
>>> result = machine.set("ni.placement", "edge").run()
>>> result["latency.mean_cycles"]
"""

from ._rackmem import __version__
from .claims import Claims, reproduce
from .errors import CommandError, Error, MachineError, PathError, ProgramError, RunError, StoreError
from .machine import Machine, machines, programs
from .report import report
from .result import Execution, Result, Stage
from .session import Mark, Measurement, Session
from .sweep import Point, Sweep

__all__ = [
    "Claims",
    "CommandError",
    "Error",
    "Execution",
    "Machine",
    "MachineError",
    "Mark",
    "Measurement",
    "PathError",
    "Point",
    "ProgramError",
    "Result",
    "RunError",
    "Session",
    "Stage",
    "StoreError",
    "Sweep",
    "__version__",
    "machines",
    "programs",
    "report",
    "reproduce",
]
