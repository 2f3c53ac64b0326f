"""rackmem: remote memory at rack scale, on hosts and on a cycle-level model.

Hosts: a program that `rackmem run -n 2 -- python program.py` starts.

>>> import numpy, rackmem
>>> with rackmem.Context(segment_bytes=1 << 20) as ctx:
...     qp = ctx.queue_pair()
...     array = numpy.zeros(8)
...     qp.read(1, 0, array)

The model:

>>> import rackmem
>>> machine = rackmem.Machine.load("manycore-ni").set("workload.kind", "sync-read")
>>> result = machine.set("ni.placement", "edge").run()
>>> result["latency.mean_cycles"]
"""

from ._rackmem import Barrier, Context, Lease, Lock, Memory, Messages, Operation, QueuePair, __version__
from .claims import Claims, reproduce
from .errors import (
    ArrayError,
    ClosedError,
    CommandError,
    Error,
    LeaseError,
    MachineError,
    NodeError,
    NodeLostError,
    PathError,
    ProgramError,
    RackError,
    RangeError,
    RightsError,
    RunError,
    StoreError,
    WaitTimeout,
)
from .machine import Machine, Program, machines, programs
from .report import report
from .result import Execution, Result, Stage
from .session import Checkpoint, Mark, Measurement, Session
from .sweep import Point, Sweep

__all__ = [
    "ArrayError",
    "Barrier",
    "Checkpoint",
    "Claims",
    "ClosedError",
    "CommandError",
    "Context",
    "Error",
    "Execution",
    "Lease",
    "LeaseError",
    "Lock",
    "Machine",
    "MachineError",
    "Mark",
    "Measurement",
    "Memory",
    "Messages",
    "NodeError",
    "NodeLostError",
    "Operation",
    "PathError",
    "Point",
    "Program",
    "ProgramError",
    "QueuePair",
    "RackError",
    "RangeError",
    "Result",
    "RightsError",
    "RunError",
    "Session",
    "Stage",
    "StoreError",
    "Sweep",
    "WaitTimeout",
    "__version__",
    "machines",
    "programs",
    "report",
    "reproduce",
]
