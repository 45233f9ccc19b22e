"""What is kept between builds: whole or not at all, for one user, and never too much."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tvm_disc.options import Options
from tvm_disc.support.store import Store, default_folder, store_of

KEYS = [f"{k:02x}{'0' * 38}" for k in range(20)]


def test_what_was_put_is_found_again_by_any_process(tmp_path: Path) -> None:
    store = Store(tmp_path / "kept")
    assert store.get(KEYS[0]) is None and not store.folder.exists()
    for content in (b"", b"code", bytes(1 << 20)):
        store.put(KEYS[0], content)
        assert Store(tmp_path / "kept").get(KEYS[0]) == content
    assert store.get(KEYS[1]) is None


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied"])
def test_a_damaged_entry_counts_as_missing(damage: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEYS[0], b"machine code")
    [entry] = store.entries()
    data = entry.path.read_bytes()
    changed = data[:-1] + bytes([data[-1] ^ 1])
    entry.path.write_bytes({"cut": data[:-3], "changed": changed, "emptied": b""}[damage])
    assert store.get(KEYS[0]) is None
    assert list(store.entries()) == []
    store.put(KEYS[0], b"machine code")
    assert store.get(KEYS[0]) == b"machine code"


def test_an_entry_under_another_name_counts_as_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEYS[0], b"machine code of one kernel")
    [entry] = store.entries()
    other = tmp_path / KEYS[1][:2] / KEYS[1]
    other.parent.mkdir(mode=0o700)
    shutil.copy(entry.path, other)
    assert store.get(KEYS[1]) is None and not other.exists(), "code of another kernel would run"
    assert store.get(KEYS[0]) is not None


def foreign(kind: str, path: Path, whole: bytes) -> None:
    """Something in the place of an entry that :meth:`Store.put` does not make."""
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            os.chdir(path.parent)  # names of sockets are short
            made.bind(path.name)
    elif kind in ("device", "link", "dangling link", "circle"):
        aside = path.parent / "aside"
        aside.write_bytes(whole)
        to = {"device": "/dev/zero", "link": aside, "circle": path}.get(kind, "nothing")
        path.symlink_to(to)
    else:
        path.write_bytes(whole)
        path.chmod({"unreadable": 0o000, "others write": 0o622}[kind])


KINDS = "pipe folder socket device link circle unreadable"


@pytest.mark.parametrize("kind", [*KINDS.split(), "dangling link", "others write"])
def test_what_is_no_plain_file_of_ours_counts_as_missing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "unreadable" and os.getuid() == 0:
        pytest.skip("nothing is unreadable to this user")
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path)
    store.put(KEYS[0], b"code")
    [entry] = store.entries()
    foreign(kind, entry.path, entry.path.read_bytes())
    begin = time.process_time()
    assert store.get(KEYS[0]) is None, kind
    assert time.process_time() - begin < 5
    store.put(KEYS[0], b"new code")
    # A folder is left where it is; everything else gives way.
    assert store.get(KEYS[0]) == (None if kind == "folder" else b"new code")
    store.prune(0)
    assert list(store.entries()) == []


def test_an_entry_that_somebody_else_owns_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.put(KEYS[0], b"code")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert store.get(KEYS[0]) is None
    monkeypatch.undo()
    (tmp_path / KEYS[0][:2]).chmod(0o777)
    assert store.get(KEYS[0]) is None, "others may have put it there"
    store.put(KEYS[0], b"code")
    assert store.get(KEYS[0]) is None


def test_what_is_larger_than_the_store_is_neither_kept_nor_read(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=10_000)
    store.put(KEYS[0], bytes(10_001))
    assert list(store.entries()) == []
    store.put(KEYS[0], bytes(9_000))
    assert store.get(KEYS[0]) == bytes(9_000)
    os.truncate(tmp_path / KEYS[0][:2] / KEYS[0], 1 << 40)  # a hole: it takes no room on the disk
    assert store.get(KEYS[0]) is None


def test_a_full_disk_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    store.put(KEYS[0], b"code")
    assert store.get(KEYS[0]) is None and list(store.entries()) == []


def test_those_not_used_for_longest_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=20_000)
    for age, key in enumerate(KEYS[:10]):
        store.put(key, bytes(1000))
        os.utime(tmp_path / key[:2] / key, (1000 + age, 1000 + age))
    assert store.get(KEYS[0]) is not None  # used now
    removed = store.prune(5_000)
    left = {entry.path.name for entry in store.entries()}
    assert removed == 10 - len(left) and 3 <= len(left) <= 4
    assert left == {KEYS[0], *KEYS[10 - len(left) + 1 : 10]}
    assert store.prune(5_000) == 0
    assert store.prune(0) == len(left) and list(store.entries()) == []


def test_a_long_run_of_entries_stays_within_the_limit(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=20_000)
    for k in range(200):
        store.put(f"{k:040x}", bytes(1000))
    assert sum(entry.size for entry in store.entries()) < 20_000


def test_it_is_looked_through_after_a_share_of_it_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    looked: list[int] = []
    monkeypatch.setattr(Store, "prune", lambda self, limit: looked.append(limit))
    for _ in range(20):  # programs of little code, each with a store of its own
        Store(tmp_path, limit=640_000).put(KEYS[0], bytes(1000))
    assert looked == []
    store = Store(tmp_path, limit=640_000)
    for k in range(24):
        store.put(KEYS[k % len(KEYS)], bytes(1000))
    assert looked == [640_000] * 2, "after 5,000 bytes, then 10,000 more"


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEYS[0], b"code")
    tmp_path.chmod(0o777)
    assert store.get(KEYS[0]) is None, "somebody else's code would run"
    store.put(KEYS[1], b"code")
    tmp_path.chmod(0o700)
    assert store.get(KEYS[0]) == b"code" and store.get(KEYS[1]) is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "kept")
    store.put(KEYS[0], b"code")
    assert store.get(KEYS[0]) is None and list(store.entries()) == []


def test_a_folder_with_too_long_a_name_keeps_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / ("x" * 300))
    store.put(KEYS[0], b"code")
    assert store.get(KEYS[0]) is None and list(store.entries()) == []


def test_threads_that_put_and_get_the_same_keys(tmp_path: Path) -> None:
    wrong: list[bytes] = []

    def work(seed: int) -> None:
        store = Store(tmp_path, limit=8_000)
        for k in range(150):
            key = KEYS[(k * seed) % len(KEYS)]
            store.put(key, key.encode() * 20)
            found = store.get(key)
            if found not in (None, key.encode() * 20):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=[seed]) for seed in (1, 3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not list(tmp_path.glob("??/.*"))


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "tvm_disc"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "tvm_disc"
    assert store_of(Options(cache=False)) is None

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "home", nobody)
        assert default_folder() is None and store_of(Options()) is None
    found = store_of(Options(cache=tmp_path))
    assert found is not None and found.folder == tmp_path
    found = store_of(Options())
    assert found is not None and found.folder == default_folder()


def large(store: Store, key: str, head: bytes, body: np.ndarray) -> None:
    entry = store.begin_large(key, body)
    assert entry is not None
    with entry:
        entry.finish(head)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 20 << 20])
def test_a_large_entry_is_mapped(size: int, tmp_path: Path, rng: np.random.Generator) -> None:
    store = Store(tmp_path)
    body = rng.integers(0, 255, size, "uint8")
    for head in (b"", b"head"):
        assert store.get_large(KEYS[1]) is None
        large(store, KEYS[0], head, body)
        found = Store(tmp_path).get_large(KEYS[0])
        assert found is not None and found[0] == head and np.array_equal(found[1], body)
        assert found[1].ctypes.data % 64 == 0 and not found[1].flags.writeable
        assert len(list(store.entries())) == 1
        # Who has it mapped keeps it, whatever becomes of the entry.
        store.prune(0)
        assert store.get_large(KEYS[0]) is None and np.array_equal(found[1], body)


@pytest.mark.parametrize("at", [0, 33, 100, 2_000, -1])
def test_a_large_entry_that_is_damaged_counts_as_missing(at: int, tmp_path: Path) -> None:
    store = Store(tmp_path)
    for cut in (False, True):
        large(store, KEYS[0], b"head", np.arange(250, dtype="uint8").repeat(8))
        [entry] = store.entries()
        data = bytearray(entry.path.read_bytes())
        data[at] ^= 1
        entry.path.write_bytes(data[:at] if cut else data)
        assert store.get_large(KEYS[0]) is None
        assert list(store.entries()) == []


def test_a_large_entry_is_of_one_key_and_one_user(tmp_path: Path) -> None:
    store = Store(tmp_path)
    large(store, KEYS[0], b"head", np.zeros(100, "uint8"))
    [entry] = store.entries()
    other = tmp_path / KEYS[1][:2] / KEYS[1]
    other.parent.mkdir(mode=0o700)
    shutil.copy(entry.path, other)
    assert store.get_large(KEYS[1]) is None, "another program would run"
    entry.path.chmod(0o666)
    assert store.get_large(KEYS[0]) is None, "others may have written it"


def test_a_large_entry_leaves_room_for_others(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=10_000)
    assert store.begin_large(KEYS[0], np.zeros(5_001, "uint8")) is None
    for key in KEYS[:3]:
        large(store, key, b"", np.zeros(4_900, "uint8"))
    assert sum(entry.size for entry in store.entries()) <= 10_000
    assert store.get_large(KEYS[2]) is not None, "the newest stays"


def test_a_large_entry_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = store.begin_large(KEYS[0], np.zeros(1 << 20, "uint8"))
    assert entry is not None
    with pytest.raises(KeyError), entry:
        raise KeyError
    assert list(store.entries()) == []
