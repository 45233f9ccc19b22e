from typing import Any

from . import Stmt

class For(Stmt):
    extent: Any
    body: Stmt
    def __init__(self, *args: Any, **options: Any) -> None: ...

class IfThenElse(Stmt):
    condition: Any
    then_case: Stmt
    else_case: Stmt | None
    def __init__(self, *args: Any, **options: Any) -> None: ...

class SeqStmt(Stmt):
    seq: Any
    def __init__(self, *args: Any, **options: Any) -> None: ...

class _Statement:
    def __call__(self, *args: Any, **options: Any) -> Stmt: ...

def __getattr__(name: str) -> _Statement: ...
