"""One module with inputs for several calls, as text that can be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tvm_disc
from tests.processor import absent_for
from tvm_disc import relay
from tvm_disc.options import Options


@dataclass(frozen=True)
class Case:
    """A module, how it is built, and one set of inputs per call.

    ``options`` are of :class:`Options`; ``target`` among them is an older processor, whose code is
    run where this one can.
    ``sure`` says that every call of an operator is as a row's sample has it, so that a refusal to
    build is wrong. ``kind`` is what was found, where the case is kept.
    """

    text: str
    worlds: list[dict[str, np.ndarray]]
    constraints: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    sure: bool = False
    seed: int = -1
    kind: str = ""
    note: str = ""

    @property
    def module(self) -> Any:
        """The module, read from its text."""
        return relay.parse(self.text)

    def built(self, module: Any = None) -> Any:
        """The program of the module; raises what its build does."""
        given = dict(self.options)
        level = given.pop("target", None)
        return tvm_disc.build(
            self.module if module is None else module,
            target=None if level is None or absent_for(level) else f"llvm -mcpu={level}",
            constraints=self.constraints,
            options=Options(**given),
        )

    def to_json(self) -> str:
        """The case as text; floats are written in full."""
        data = {
            "note": self.note,
            "kind": self.kind,
            "seed": self.seed,
            "sure": self.sure,
            "options": self.options,
            "constraints": self.constraints,
            "module": self.text.splitlines(),
            "worlds": [{n: _told(a) for n, a in w.items()} for w in self.worlds],
        }
        return json.dumps(data, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Case:
        """What ``to_json`` wrote."""
        data = json.loads(text)
        worlds = [{n: _read(a) for n, a in w.items()} for w in data["worlds"]]
        return Case(
            "\n".join(data["module"]) + "\n",
            worlds,
            data["constraints"],
            data["options"],
            data["sure"],
            data["seed"],
            data["kind"],
            data["note"],
        )


def kept(folder: Path) -> dict[str, Case]:
    """The cases of a folder by name."""
    paths = sorted(folder.glob("*.json"))
    return {p.stem: Case.from_json(p.read_text(encoding="utf-8")) for p in paths}


def _told(array: np.ndarray) -> Mapping[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.ravel().tolist()}


def _read(told: Mapping[str, Any]) -> np.ndarray:
    return np.array(told["data"], told["dtype"]).reshape(told["shape"])
