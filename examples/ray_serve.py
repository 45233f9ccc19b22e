"""Serve a saved program on many processes or machines, with Ray Serve.

    pip install 'ray[serve]'
    python ray_serve.py encoder.so

The program must be built with `ragged=` (docs/ragged.md). Ray collects requests of different
lengths, and the program runs them as one batch without padding. Each replica is one process with
one core; Ray starts further replicas when requests wait.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import serve
from starlette.requests import Request

import tvm_disc

MOST_REQUESTS, WAIT_S = 16, 0.005  # maximum size of a batch, and wait of its first request
ERRORS = (tvm_disc.DiscError, ValueError)
SCALING = {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": MOST_REQUESTS}


@serve.deployment(
    autoscaling_config=SCALING,
    max_ongoing_requests=4 * MOST_REQUESTS,
    ray_actor_options={"num_cpus": 1},
)
class Model:
    """A replica: a process that loads the program and runs batches."""

    def __init__(self, path: str) -> None:
        self.exe = tvm_disc.load(path)
        self.exe.threads = 1
        self.exe.ready()
        self.largest = 0
        self.dtypes = {name: dtype for name, _, dtype in self.exe.signature}

    @serve.batch(max_batch_size=MOST_REQUESTS, batch_wait_timeout_s=WAIT_S)
    async def predict(self, requests: list[dict[str, Any]]) -> list[Any]:
        """Return the result or error of each request; an invalid one does not affect the others."""
        self.largest = max(self.largest, len(requests))
        try:
            return self.results(requests)
        except ERRORS as error:
            if len(requests) == 1:
                return [{"error": str(error)}]
        return [(await self.alone(request)) for request in requests]

    async def alone(self, request: dict[str, Any]) -> Any:
        """Return the result of one request, or the error that it raises."""
        try:
            return self.results([request])[0]
        except ERRORS as error:
            return {"error": str(error)}

    def results(self, requests: list[dict[str, Any]]) -> list[Any]:
        """Run requests as one ragged batch."""
        names = requests[0].keys()
        if any(r.keys() != names for r in requests):
            raise ValueError("requests of a batch have different inputs")
        inputs = {n: [np.asarray(r[n], self.dtypes.get(n)) for r in requests] for n in names}
        result = self.exe(**inputs)
        return [np.asarray(result[k]).tolist() for k in range(len(requests))]

    async def largest_batch(self) -> int:
        """Return the number of requests of the largest batch so far."""
        return self.largest

    async def __call__(self, request: Request) -> Any:
        """Answer an HTTP request with one JSON object: an array for each input."""
        return await self.predict(await request.json())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a program built with ragged= and saved")
    args = parser.parse_args()
    ray.init()
    serve.run(Model.bind(str(args.model.resolve())), blocking=True)
