"""`python -m rackmem demo` runs a demonstration; with anything else it is the command `rackmem`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from .command import find_command
from .errors import Error
from .machine import Machine
from .report import report
from .sweep import Sweep


def demo(arguments: list[str]) -> None:
    """Reads another chip's memory with the network interfaces at three places, and draws where the time goes."""
    parser = argparse.ArgumentParser(prog="python -m rackmem demo", description=demo.__doc__)
    parser.add_argument("-o", "--out", default="rackmem-demo.html", metavar="FILE", help="the page to write")
    out = parser.parse_args(arguments).out
    settings = {"workload.kind": "sync-read", "workload.transfer_bytes": 64, "run.reads": 32}
    machine = Machine.load("manycore-ni").set(settings)
    print("64 cores, one after the other, read 64 bytes of another chip; their network interfaces are")
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(machine, {"ni.placement": ["edge", "per-tile", "split"]}, folder=folder).run()
    results = []
    for point in sweep.points:
        if point.result is None:
            raise Error(point.error)
        cycles = point.result["latency.mean_cycles"]
        print(f"  {point.settings['ni.placement']:10} {cycles:6.1f} cycles, {cycles / machine['clock_ghz']:6.1f} ns")
        results.append(point.result)
    print(f"where the time goes: {report(results, out)}")


def main() -> None:
    """Runs the demonstration, or becomes the command."""
    if sys.argv[1:2] == ["demo"]:
        demo(sys.argv[2:])
    else:
        command = find_command()
        os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        sys.exit(f"rackmem: {error}")
