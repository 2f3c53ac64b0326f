"""The runtime over two hosts: nodes with addresses of their own, and a directory of racks for each."""

import os
import sys

import pytest
from racks import MODES, Host

PROGRAM = """
import asyncio
ctx = rackmem.Context(segment_bytes=40 << 20)
qp, other = ctx.queue_pair(), 1 - ctx.node
barrier, messages = ctx.barrier(0), ctx.messages(4096)
own = memoryview(ctx.segment)
DATA = 1 << 20
own[DATA : DATA + 4] = bytes([ctx.node + 1]) * 4
barrier.wait(60)
out, large = bytearray(4), bytearray(os.urandom(1 << 20) * 20)
qp.read(other, DATA, out)
assert out == bytes([other + 1]) * 4
assert qp.fetch_add(other, DATA + 64, 5) == 0 and qp.fetch_add_async(other, DATA + 64, 1).result(60) == 5
qp.write_async(other, 2 << 20, large).result(60)
back = bytearray(len(large))
qp.read(other, 2 << 20, back)
assert back == large
raises(rackmem.RangeError, lambda: qp.read(other, 40 << 20, out), "leaves the node's segment")
raises(rackmem.NodeError, lambda: qp.read(2, 0, out), "no such node")

async def read(n):
    some = bytearray(4)
    await qp.read_async(other, DATA, some)
    return some

async def many():
    assert await asyncio.gather(*map(read, range(300))) == [out] * 300

asyncio.run(many())
if ctx.node == 0:
    messages.send(1, large)
    assert messages.receive(1, 60) == b"got it"
else:
    assert len(messages.receive(0, 60)) == len(large)
    messages.send(0, b"got it")
barrier.wait(60)
print("done")
if ctx.node == 1:
    os._exit(0)
raises(rackmem.NodeLostError, lambda: messages.receive(1, 60), "rackmem status")
ctx.close()
"""


class Lab:
    """A rack of two nodes, each on a host of its own."""

    def __init__(self) -> None:
        self.host = Host()
        # The test's own addresses of the loopback network.
        high, low = divmod(os.getpid() % 65536, 256)
        nodes = "".join(f'[[node]]\naddress = "127.{high}.{low}.{n}:7411"\n' for n in (201, 202))
        secret = self.host.path / "lab.secret"
        secret.write_text("0123456789abcdef\n")
        secret.chmod(0o600)
        self.file = self.host.path / "rack.toml"
        self.file.write_text(f'name = "lab"\nsecret_file = "lab.secret"\n{nodes}')
        self.launcher = f"env RACKMEM_DIR={self.host.path}/h{{node}}"

    def on_all(self, command: str, *arguments: str) -> str:
        where = [f"--rack-file={self.file}", "--launcher", self.launcher]
        return self.host.ok(command, *where, *arguments)

    def run(self, text: str, progress: str) -> str:
        program = self.host.program(text)
        return self.on_all("run", "--progress", progress, "--", sys.executable, program)


@pytest.fixture(scope="module")
def lab():
    lab = Lab()
    lab.on_all("up", "--hosts")
    yield lab
    lab.on_all("down", "--hosts")
    lab.host.close()


@pytest.mark.parametrize("progress", MODES)
def test_nodes_of_two_hosts_reach_each_other(lab, progress):
    assert lab.run(PROGRAM, progress).count("done") == 2
