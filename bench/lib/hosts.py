"""Two hosts for bench/compare and bench/outages: network namespaces that are joined by a pair of virtual Ethernets."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .rig import Failed, is_root, sh

RACK = "compare"
PORT = 7400


class Hosts:
    """Hosts 0 and 1. Racks and other files have a directory of their own, which goes at the end."""

    def __init__(self):
        self.names = [f"rkc{os.getpid()}h{host}" for host in (0, 1)]
        self.addresses = ["10.92.0.1", "10.92.0.2"]

    @staticmethod
    def missing():
        if not is_root():
            return "network namespaces need root"
        return "" if shutil.which("ip") else "no ip (Debian: iproute2)"

    def __enter__(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="rackmem-compare-"))
        try:
            for name in self.names:
                sh("ip", "netns", "add", name)
                sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "link", "add", "e0", "netns", self.names[0], "type", "veth", "peer", "name", "e0", "netns", self.names[1])
            for name, address in zip(self.names, self.addresses):
                sh("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "e0")
                sh("ip", "-n", name, "link", "set", "e0", "up")
        except Failed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            sh("ip", "netns", "del", name, check=False)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def on(self, host):
        """The words in front of a command that is to run on a host."""
        return ["ip", "netns", "exec", self.names[host]]

    def rackmem(self, command, is_sealed, program, cores):
        """Output of a program of two processes, in a rack of both hosts; what runs on a host has a core of its own."""
        file = self.rack_file(is_sealed)
        env = [dict(os.environ, RACKMEM_DIR=str(self.directory(host))) for host in (0, 1)]
        try:
            for host in (0, 1):
                self._call(host, [command, "up", "--rack-file", file, "--node", str(host)], env[host], cores[host])
            launcher = f"ip netns exec {self.names[1]} taskset -c {cores[1]} env RACKMEM_DIR={self.directory(1)}"
            return self._call(0, [command, "run", "--rack-file", file, "--launcher", launcher, "-n", "2", "--", *program],
                              env[0], cores[0], seconds=300)
        finally:
            for host in (0, 1):
                subprocess.run([*self.on(host), command, "down", "--rack-file", file, "--node", str(host)], env=env[host],
                               capture_output=True, stdin=subprocess.DEVNULL, timeout=60)

    def directory(self, host):
        return self.scratch / f"host{host}"

    def rack_file(self, is_sealed, link="tcp"):
        secret = self.scratch / "secret"
        secret.touch(mode=0o600)
        secret.write_text("only these two hosts, and only for this run")
        nodes = "".join(f'[[node]]\naddress = "{address}:{PORT}"\n' for address in self.addresses)
        file = self.scratch / "rack.toml"
        by = "" if link == "tcp" else f'link = "{link}"\n'
        file.write_text(f'name = "{RACK}"\nsecret_file = "secret"\ncleartext = {str(not is_sealed).lower()}\n{by}{nodes}')
        return str(file)

    def _call(self, host, command, env, core, seconds=60):
        try:
            done = subprocess.run([*self.on(host), "taskset", "-c", str(core), *map(str, command)], env=env, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[1]}: not finished after {seconds} s") from None
        if done.returncode:
            raise Failed(f"rackmem {command[1]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout
