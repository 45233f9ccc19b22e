"""Measuring on other machines, through TVM's RPC tracker and servers.

On each machine, with TVM installed:

    python -m tvm.exec.rpc_tracker --port 9190                       # one of them
    python -m tvm.exec.rpc_server --tracker HOST:9190 --key board    # all that measure
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_disc.errors import ArtifactError
from tvm_disc.tuning.entry import Bench, require_machine
from tvm_disc.tuning.measure import Session


@dataclass(frozen=True)
class Remote:
    """Machines of one kind behind a tracker.

    Attributes:
        host, port: the tracker.
        key: the name under which the machines' servers registered.
        machines: how many measure at once.
        timeout_s: how long a machine is held without a word.
    """

    host: str
    port: int
    key: str
    machines: int = 1
    timeout_s: int = 600


CONNECT_S = 5.0


class Fleet:
    """The machines of a :class:`Remote`, held while it is open."""

    def __init__(self, remote: Remote) -> None:
        from tvm import rpc

        try:
            # TVM tries for a minute; a tracker that runs answers at once.
            socket.create_connection((remote.host, remote.port), CONNECT_S).close()
            tracker = rpc.connect_tracker(remote.host, remote.port)
            self.machines = [
                tracker.request(remote.key, session_timeout=remote.timeout_s, max_retry=1)
                for _ in range(remote.machines)
            ]
        except Exception as error:
            where = f"{remote.host}:{remote.port}"
            raise ArtifactError(
                f"no {remote.machines} machines of key {remote.key!r} at tracker {where}: {error}"
            ) from None

    def cpu_name(self) -> str:
        """The processor of the machines, as LLVM names it."""
        names = {str(m.get_function("target.llvm_get_system_cpu")()) for m in self.machines}
        if len(names) > 1:
            raise ArtifactError(f"machines of one key must be alike; found {sorted(names)}")
        return names.pop()

    def sessions(self, benches: Sequence[Bench]) -> list[list[Session]]:
        """For each machine, a session for each bench; all benches are of one module.

        Raises:
            WrongProcessor: the machines do not run the code.
        """
        require_machine(benches[0].target, self.cpu_name())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "variants.so"
            benches[0].module.export_library(str(path))
            result = []
            for machine in self.machines:
                machine.upload(str(path))
                module = machine.load_module(path.name)
                result.append([Session(b, module, machine.cpu(0)) for b in benches])
            return result
