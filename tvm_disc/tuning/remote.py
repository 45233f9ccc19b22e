"""Measurement on other machines, through TVM's RPC tracker and servers.

On each machine, with TVM installed:

    python -m tvm.exec.rpc_tracker --port 9190                       # on one of them
    python -m tvm.exec.rpc_server --tracker HOST:9190 --key board    # on all that measure

For a server without a tracker, pass the session that ``tvm.rpc.connect`` returns.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import tvm

from tvm_disc.codegen.export import c_compiler
from tvm_disc.errors import ArtifactError, BadInput, Unsupported, counted, shown
from tvm_disc.tuning.entry import Bench, require_machine
from tvm_disc.tuning.measure import Session
from tvm_disc.tuning.remote_device import RemoteDevice, said
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class Remote:
    """Identical machines behind a tracker.

    Attributes:
        host, port: the tracker.
        key: the name under which the machines' servers registered.
        machines: number of machines that measure at once.
        timeout_s: a server ends the session after this time, even during a measurement.
        compiler: a C compiler that links for the machines, if this machine's does not.
    """

    host: str
    port: int
    key: str
    machines: int = 1
    timeout_s: int = 600
    compiler: str | None = None


# Where ``tune`` can measure: machines behind a tracker, or the machine of a ``tvm.rpc`` session.
Place: TypeAlias = Remote | Any
CONNECT_S = 5.0


class Fleet:
    """The machines of a :class:`Remote`, reserved while the object exists; or that of a session.

    Attributes:
        machines: sessions with the machines.
        where: the name of a machine in messages.

    Raises:
        ArtifactError: no tracker answers, or it has too few machines of the key.
        BadInput: ``remote`` is neither a Remote nor a session.
        Unsupported: packages that TVM's RPC needs are not installed.
    """

    def __init__(self, remote: Place) -> None:
        rpc = _rpc()
        self.compiler: str | None = None
        if isinstance(remote, rpc.RPCSession):
            self.machines, self.where = [remote], "the session's machine"
            return
        if not isinstance(remote, Remote):
            raise BadInput(
                "remote: expected a tvm_disc.tuning.remote.Remote, or a session of "
                f"tvm.rpc.connect, found {shown(remote)}"
            )
        self.compiler = remote.compiler
        self.where = f"a machine of key {remote.key!r} at tracker {remote.host}:{remote.port}"
        self.machines = _requested(rpc, remote)

    def cpu_name(self) -> str:
        """Return LLVM's name of the machines' processor.

        Raises:
            ArtifactError: a machine cannot report it, or the machines differ.
        """
        try:
            names = {str(m.get_function("target.llvm_get_system_cpu")()) for m in self.machines}
        except AttributeError as error:
            raise ArtifactError(
                f"tune: {self.where} did not report its processor ({said(error)}); its server "
                "needs all of TVM, including the compiler"
            ) from None
        if len(names) > 1:
            raise ArtifactError(
                f"machines of one key must have the same processor; found {sorted(names)}"
            )
        return names.pop()

    def sessions(self, benches: Sequence[Bench]) -> list[list[Session]]:
        """Return, for each machine, a session for each bench; all benches share one module.

        Raises:
            WrongProcessor: the machines cannot run the code.
        """
        require_machine(benches[0].target, self.cpu_name())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "variants.so"
            benches[0].module.export_library(str(path), cc=c_compiler(self.compiler))
            result = []
            for machine in self.machines:
                machine.upload(str(path))
                module = machine.load_module(path.name)
                result.append([Session(b, module, machine.cpu(0)) for b in benches])
            return result

    def devices(self) -> list[RemoteDevice]:
        """Return the GPUs of the machines.

        Raises:
            DeviceError: a machine cannot be queried.
            ArtifactError: the GPUs differ.
        """
        found = [RemoteDevice(m, self.where, self.compiler) for m in self.machines]
        names = {("none" if d.card is None else d.card.key, d.library) for d in found}
        if len(names) > 1:
            listed = ", ".join(f"{n}{' with cuBLASLt' * has}" for n, has in sorted(names))
            raise ArtifactError(
                f"machines of one key must have the same GPU and libraries; found {listed}"
            )
        return found


@contextmanager
def answered() -> Iterator[None]:
    """Return a context that translates RPC failures to an error in the user's terms.

    Raises:
        ArtifactError: a machine no longer answers.
    """
    try:
        yield
    except (tvm.error.RPCError, tvm.error.InternalError) as error:
        raise ArtifactError(f"tune: a remote machine failed: {said(error)}") from None


def _rpc() -> Any:
    """Return TVM's RPC module."""
    try:
        from tvm import rpc
    except ImportError as error:
        raise Unsupported(f"remote: {error}; pip install 'tvm_disc[remote]'") from None
    return rpc


def _requested(rpc: Any, remote: Remote) -> list[Expr]:
    """Return sessions with ``remote.machines`` machines; wait for machines in use by others."""
    where = f"{remote.host}:{remote.port}"
    machines = counted(remote.machines, "machine")
    wanted = f"remote: expected {machines} of key {remote.key!r} at tracker {where}"
    try:
        # A running tracker answers at once; without this test, TVM would retry for a minute.
        socket.create_connection((remote.host, remote.port), CONNECT_S).close()
        tracker = rpc.connect_tracker(remote.host, remote.port)
        # A request for an unknown key, or for more machines than exist, would never be answered.
        keys = [str(s["key"]).removeprefix("server:") for s in tracker.summary()["server_info"]]
        if keys.count(remote.key) < remote.machines:
            has = ", ".join(f"{keys.count(k)} of {k!r}" for k in sorted(set(keys))) or "none"
            raise ArtifactError(f"{wanted}, found {has}")
        return [
            tracker.request(remote.key, session_timeout=remote.timeout_s, max_retry=1)
            for _ in range(remote.machines)
        ]
    except ArtifactError:
        raise
    except Exception as error:
        raise ArtifactError(f"{wanted}: {error}") from None


__all__ = ["Fleet", "Place", "Remote", "answered"]
