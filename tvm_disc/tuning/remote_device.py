"""The GPU of another machine, queried and timed through a TVM RPC session.

The machine needs TVM's runtime and a driver. Programs are built here and sent as the libraries that
``save`` writes; the driver events of their calls are sent back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_disc.abi.entries import CHECK, CLOSE, ENTRY, UPLOAD
from tvm_disc.abi.record import COUNT, ROOM
from tvm_disc.errors import DeviceError, WrongProcessor
from tvm_disc.runtime.device import described
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.profile import Event, new_record
from tvm_disc.tuning import probe
from tvm_disc.typing import RuntimeTensor

_FROM_REMOTE = "Error caught from RPC call:"
_LONGER = 'try to increase the "session_timeout" value.'


class RemoteDevice:
    """GPU 0 of a machine.

    Args:
        session: a ``tvm.rpc`` session.
        where: name of the machine in messages.
        compiler: a C compiler that links for the machine; None uses this machine's compiler.

    Attributes:
        card: description of the GPU; None without a driver or a device.
        library: whether cuBLASLt is found there.

    Raises:
        DeviceError: the machine does not answer.
    """

    def __init__(self, session: Any, where: str, compiler: str | None) -> None:
        self.session, self.where, self.compiler = session, where, compiler
        # Modules stay loaded: unloading one would remove the code that frees its results.
        self._modules: list[object] = []
        library = probe.made(compiler)
        with self._told():
            session.upload(bytearray(library), probe.FILE)
            module = session.load_module(probe.FILE)
            self._address = module[probe.ADDRESS]
            words = self._there(np.zeros(probe.CARD_WORDS, np.int64))
            module[probe.CARD](words)
            self.card, self.library = probe.card_of(words.numpy())

    def load(self, program: Executable) -> RemoteProgram:
        """Send a program to the machine.

        Raises:
            WrongProcessor: the machine's processor cannot run the host code.
            DeviceError: the machine does not answer.
        """
        name = f"tvm_disc_program_{len(self._modules)}.so"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            program.save(path, self.compiler)
            with self._told():
                self.session.upload(str(path))
        with self._told():
            module = self.session.load_module(name)
            self.session.remove(name)
            self._modules.append(module)
            check = module[CHECK]
        try:
            check(-1)
        except Exception as error:
            raise WrongProcessor(f"tune: {self.where}: {said(error)}") from None
        return RemoteProgram(self, module, program)

    def address(self, tensor: object) -> int:
        """Return the address of a tensor in the machine's memory."""
        return int(self._address(tensor))

    def _there(self, array: np.ndarray) -> RuntimeTensor:
        """Return a copy of ``array`` in the machine's host memory."""
        return tvm.runtime.tensor(array, self.session.cpu(0))

    def sent(self, upload: Any, array: np.ndarray) -> object:
        """Return a copy of ``array`` in GPU memory, made by a program's upload function."""
        kind, dims = described(array)
        raw = np.zeros(max(array.nbytes, 1), np.uint8)
        raw[: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        place, sizes = self._there(raw), self._there(dims)
        return upload(kind, array.ndim, self.address(sizes), array.nbytes, self.address(place))

    def called(self, main: Any, inputs: Sequence[object], capacity: int) -> np.ndarray:
        """Return the record of a timed call; the record has space for ``capacity`` events."""
        record = self._there(new_record(capacity))
        main(*inputs, self.address(record))
        return np.asarray(record.numpy())

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Return a context that translates remote failures to an error in the user's terms."""
        try:
            yield
        except Exception as error:
            raise DeviceError(f"tune: {self.where}: {said(error)}") from None


class RemoteProgram:
    """A program that was sent to a :class:`RemoteDevice`."""

    def __init__(self, device: RemoteDevice, module: Any, program: Executable) -> None:
        self.device, self.program = device, program
        self.main, self.upload, self._close = module[ENTRY], module[UPLOAD], module[CLOSE]

    def close(self) -> None:
        """Free the program's memory on the device.

        Raises:
            DeviceError: the machine does not answer.
        """
        with self.device._told():
            self._close()

    def times(self, arrays: Sequence[np.ndarray], calls: int) -> list[list[Event]]:
        """Return the events of ``calls`` equal calls, after one warm-up call.

        Raises:
            DeviceError: a call fails there, or the machine does not answer.
        """
        device, capacity = self.device, max(64, 4 * len(self.program.launches))
        found: list[list[Event]] = []
        with device._told():
            there = [device.sent(self.upload, a) for a in arrays]
            device.called(self.main, there, capacity)
            while len(found) < calls:
                words = device.called(self.main, there, capacity)
                # a loop launched more kernels than the record can hold
                if words[COUNT] > words[ROOM]:
                    capacity = 2 * int(words[COUNT])
                else:
                    found.append(self.program.read_record(words)[0])
        return found


def said(error: Exception) -> str:
    """Return the message of a remote error without its remote traceback."""
    lines = str(error).rpartition(_FROM_REMOTE)[2].strip().splitlines()
    text = lines[-1] if lines else type(error).__name__
    return text.replace(_LONGER, "give Remote a larger timeout_s; measured times are kept")


__all__ = ["RemoteDevice", "RemoteProgram", "said"]
