"""Serve a saved program over HTTP, with FastAPI.

    pip install fastapi uvicorn
    tvm-disc build model.onnx -o model.so
    python fastapi_server.py model.so --port 8000
    curl localhost:8000/predict -H 'content-type: application/json' -d '{"inputs": {"x": [[1.0, 2.0]]}}'

FastAPI runs each request in a thread of its pool. All threads call the same program; calls release
the GIL. Each call uses one core, so that concurrent requests run on different cores.
"""  # noqa: E501

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

import tvm_disc


class Call(BaseModel):
    """A request: nested lists by the program's input names."""

    inputs: dict[str, Any]


def server(model: Path, shapes: Path | None = None) -> FastAPI:
    """Return the application for a saved program.

    Args:
        shapes: a file to which the input shapes of requests are appended at the end, for
            ``tvm-disc tune --log``.
    """
    exe = tvm_disc.load(model)
    exe.threads = 1
    metrics = exe.metrics(model.stem)
    dtypes = {name: dtype for name, _, dtype in exe.signature}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as running:
            exe.ready()
            running.enter_context(metrics)
            if shapes is not None:
                running.enter_context(exe.record_shapes(shapes))
            yield

    app = FastAPI(title=model.stem, lifespan=lifespan)

    @app.post("/predict")
    def predict(call: Call) -> dict[str, Any]:
        """Run the program; a function without ``async`` runs in a thread of the pool."""
        try:
            inputs = {
                name: np.asarray(value, dtypes.get(name)) for name, value in call.inputs.items()
            }
            found = exe(**inputs)
        except (tvm_disc.DiscError, ValueError) as error:
            raise HTTPException(422, str(error)) from error
        return {"results": [array.tolist() for array in leaves(found)]}

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Return that the server is ready, and the signature of the program."""
        return {"status": "ok", "inputs": {n: [*dims] for n, dims, _ in exe.signature}}

    @app.get("/metrics", response_class=PlainTextResponse)
    def counters() -> str:
        """Return the counters that Prometheus scrapes."""
        return metrics.text()

    return app


def leaves(result: Any) -> list[Any]:
    """Return the arrays of a nested result."""
    if isinstance(result, tuple):
        return [array for item in result for array in leaves(item)]
    return [result]


if __name__ == "__main__":
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a program saved by `tvm-disc build`")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--shapes", type=Path, help="append the shapes of requests to this file")
    args = parser.parse_args()
    uvicorn.run(server(args.model, args.shapes), port=args.port)
