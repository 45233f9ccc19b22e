"""Random modules as text and as JSON, and back: ``python -m tests.relay.language.round_trips``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator

os.environ.setdefault("TVM_NUM_THREADS", "1")

from tests.fuzz.maker import Maker
from tvm_disc import relay
from tvm_disc.errors import DiscError


def problems(module: relay.IRModule) -> Iterator[str]:
    """What is not the same after it was written and read."""
    text = module.astext()
    again = relay.parse(text)
    if not relay.structural_equal(module, again):
        yield "its text gives another module"
    if again.astext() != text:
        yield "its text is printed otherwise when it was read"
    written = relay.save_json(module)
    loaded = relay.load_json(written)
    if not relay.structural_equal(module, loaded):
        yield "its JSON gives another module"
    if loaded.astext() != text:
        yield "its JSON gives another text"
    if relay.save_json(loaded) != written:
        yield "its JSON is written otherwise when it was read"


def _safe(seed: int) -> list[str]:
    """The problems of one random module; an error is one, too."""
    try:
        return list(problems(Maker(seed).make().module))
    except DiscError as error:
        return [f"{type(error).__name__}: {error}"]


def main() -> int:
    """A campaign; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first module")
    args = parser.parse_args()
    found, start = 0, time.process_time()
    for seed in range(args.seed, args.seed + args.modules):
        for problem in _safe(seed):
            print(f"module {seed}: {problem}", flush=True)
            found += 1
    seconds = time.process_time() - start
    print(f"{args.modules} modules, {found} findings, {seconds:.0f} s of processor time")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
