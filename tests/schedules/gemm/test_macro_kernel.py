"""The dot template against float64 NumPy, over many shapes per compiled instance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from benchmarks.gemm_harness import Gemm, build, cpu
from tests.processor import run_on
from tests.schedules.gemm.products import (
    CANARY,
    HERE,
    RNG,
    at,
    check,
    general,
    lay_out,
    plain_store,
    small_tile,
    tile_for,
)
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.layouts import PanelsOfB
from tvm_disc.schedules.gemm.macro_kernel import Affine, Operand
from tvm_disc.schedules.gemm.micro_kernel import (
    KernelForm,
    micro_kernel,
    ramp,
    splat,
)
from tvm_disc.schedules.packing import pack_constant


def rows_of(tile: macro_kernel.GemmTile) -> list[int]:
    r = tile.m_r
    return [0, 1, 2, 3, r - 1, r, r + 1, 2 * r + 1, 31, 97, 100, 127]


def columns_of(tile: macro_kernel.GemmTile) -> list[int]:
    return [1, tile.lanes, tile.n_r - 1, tile.n_r, tile.n_r + 1, 2 * tile.n_r + tile.lanes + 3]


@pytest.mark.parametrize(
    ("n", "direct"), [("below", True), ("below", False), ("exact", True), ("above", True)]
)
def test_constant_weights_serve_every_m(n: str, direct: bool) -> None:
    tile = tile_for()
    cols = tile.n_r + {"below": -1, "exact": 0, "above": 17}[n]
    static = {"batch": 1, "n": cols, "k": 64}
    gemm = Gemm(("a", "b", "c"), general(static, "rows", "packed", direct=direct), HERE, tile)
    for m in rows_of(tile):
        check(gemm, (1, m, cols, 64))


@pytest.mark.parametrize("static", [None, 7 * 3, 8, 11 * 3, 11 * 3 - 1, 13])
@pytest.mark.parametrize("direct", [True, False])
def test_columns_of_packed_panels(static: int | None, direct: bool) -> None:
    """``static`` is the number of vectors of a row; None means that N is dynamic."""
    lanes = tile_for().lanes
    tile = small_tile(m_r=2, n_r=3 * lanes)
    sizes = [static] if static else [1, 2, 3, 4, 7, 8, 9, 10, 14, 15, 20, 21, 22, 33]
    n = {"n": static * lanes} if static else {}
    gemm = Gemm(
        ("a", "b", "c"), general({"k": 9, **n}, "rows", "packed", direct=direct), HERE, tile
    )
    for vectors, rest in itertools.product(sizes, (0,) if static else (0, 1, lanes - 1)):
        for m in (1, 5, 13):
            check(gemm, (1, m, vectors * lanes - rest, 9))
        check(gemm, (2, 13, vectors * lanes - rest, 9), split=True)


def test_groups_of_rows_that_are_tasks_are_even_in_number() -> None:
    tile = small_tile()
    static = {"batch": 1, "n": 2 * tile.n_r, "k": 9}
    gemm = Gemm(("a", "b", "c"), general(static, "rows", "packed"), HERE, tile)
    for m in (0, 1, 12, 13, 24, 25, 33, 37, 48, 49, 61, 97):
        check(gemm, (1, m, 2 * tile.n_r, 9), split=True)
        sizes = {"batch": 1, "m": m, "n": 2 * tile.n_r, "k": 9}
        fewest = -(-m // (tile.m_r * tile.m_blocks))
        assert gemm.query("tasks", sizes, 0) == fewest + (fewest > 1 and fewest % 2)
        spec = general({**static, "m": m}, "rows", "packed")(
            None, dict.fromkeys("abc", True), sizes
        )
        assert macro_kernel.gemm_tasks(spec, tile) == gemm.query("tasks", sizes, 0)


@pytest.mark.parametrize(
    "forms",
    [("rows", "rows"), ("rows", "cols"), ("cols", "element"), ("rows", "packed"),
     ("element", "cols"), ("packed", "rows")],
)  # fmt: skip
def test_every_dimension_dynamic(forms: tuple[str, str]) -> None:
    tile = small_tile()
    direct = forms[0] == "rows"
    gemm = Gemm(("a", "b", "c"), general({}, *forms, direct=direct), HERE, tile)
    for k in (0, 1, 13, 64):
        for n in columns_of(tile):
            check(gemm, (2, 7, n, k), forms)
    for m in rows_of(tile):
        check(gemm, (2, m, 43, 30), forms)
    check(gemm, (3, 2 * tile.m_r * tile.m_blocks + 5, 2 * tile.n_r + 9, 33), forms, split=True)
    if "packed" not in forms:
        check(gemm, (0, 5, 5, 5), forms)
    for offset in (1, 3):
        check(gemm, (2, 19, 81, 37), forms, offset)


@pytest.mark.parametrize(("static_k", "direct"), [(True, True), (False, False), (False, True)])
def test_blocks_of_k(static_k: bool, direct: bool) -> None:
    tile = small_tile(kc=16, m_blocks=2, n_panels=2)
    for k in (17, 64):
        static = {"k": k} if static_k else {}
        gemm = Gemm(("a", "b", "c"), general(static, "rows", "rows", direct=direct), HERE, tile)
        for m in (1, 6, 40):
            check(gemm, (1, m, 3 * tile.n_r + 5, k), ("rows", "rows"))
        if not static_k:
            for kk in (0, 15, 33, 130):
                check(gemm, (1, 29, 70, kk), ("rows", "rows"))
            break


@pytest.mark.parametrize(("static_k", "direct"), [(True, True), (False, False)])
def test_long_rows_are_copied_in_wide_tasks(static_k: bool, direct: bool) -> None:
    tile = small_tile(kc=16, m_blocks=3, n_panels=2)
    group = tile.m_r * tile.m_blocks  # rows of a task
    panels = 4 * tile.n_panels
    static = {"batch": 1, "n": panels * tile.n_r + 5, **({"k": 40} if static_k else {})}
    gemm = Gemm(("a", "b", "c"), general(static, "rows", "packed", direct=direct), HERE, tile)
    tasks = [gemm.query("tasks", {"m": m, "k": 40}) for m in (1, group, group + 1, 4 * group)]
    assert tasks == [5, 5, 10, 12]  # 5 groups of columns, then 5 x 2, then 3 x 4
    for m in (0, 1, 2 * tile.m_r, 2 * tile.m_r + 1, group, group + 1, 3 * group + 1, 101):
        check(gemm, (1, m, static["n"], 40), split=m == 101)
    for k in () if static_k else (0, 1, 15, 16, 17, 130):
        check(gemm, (1, 3 * group + 1, static["n"], k))


@pytest.mark.parametrize("a_form", ["cols", "element"])
def test_copies_of_rows_follow_the_blocks_of_k(a_form: str) -> None:
    tile = small_tile(kc=16)
    gemm = Gemm(("a", "b", "c"), general({}, a_form, "rows"), HERE, tile)
    for m, n, k in ((1, 33, 17), (7, 70, 64), (29, 35, 33), (40, 5, 16)):
        check(gemm, (2, m, n, k), (a_form, "rows"), offset=1)


def test_tiles_of_two_widths_share_a_module() -> None:
    """Kernels of packed panels know how far rows of B are apart, so widths do not share them."""
    kernels = macro_kernel.MicroKernels()
    tiles = [tile_for(n_r=48, m_r=4), tile_for(n_r=64, m_r=4)]
    for form, distinct in ((KernelForm(ahead=True), 2), (KernelForm(), 1)):
        assert len({kernels.get(t, "float32", 4, 3, form) for t in tiles}) == distinct


@pytest.mark.parametrize(
    ("mcpu", "rows", "vectors", "most"), [("cascadelake", 9, 3, 48), ("x86-64-v3", 6, 2, 27)]
)
def test_no_arithmetic_on_addresses_in_the_loop_of_a_kernel(
    mcpu: str, rows: int, vectors: int, most: int
) -> None:
    """A step of K is multiply-adds, loads, prefetches and the few pointers that move."""
    tile = macro_kernel.default_tile(macro_kernel.isa_of(cpu(mcpu)))
    kernel = micro_kernel(tile, "float32", rows, vectors, KernelForm(ahead=True))
    func = kernel.with_attr("global_symbol", "kernel")
    asm = build({tvm.ir.GlobalVar("kernel"): func}, cpu(mcpu)).inspect_source("asm")
    blocks = [b.splitlines() for b in asm.split(".LBB") if b.count("vfmadd") == rows * vectors]
    steps = [len([x for x in b[1:] if x.startswith("\t") and x[1] != "."]) for b in blocks]
    assert steps
    assert min(steps) <= most


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_against_a_transposed_operand(dtype: str) -> None:
    """Inner products for up to eight rows, packing beyond; narrow columns are packed too."""
    tile = small_tile() if dtype == "float32" else small_tile(lanes=8)
    describe = general({}, "rows", "cols", dtype, direct=True)
    gemm = Gemm(("a", "b", "c"), describe, HERE, tile, dtype)
    assert any("gemm_inner" in f.name_hint for f in gemm.functions)
    for m in range(10):
        for n, k in ((1, 5), (3, 16), (5, 64), (7, 37), (16, 1), (17, 0), (97, 33)):
            check(gemm, (2, m, n, k), ("rows", "cols"), offset=1)
    check(gemm, (3, 5, 2 * tile.n_r * tile.n_panels + 5, 20), ("rows", "cols"), split=True)


def test_rows_a_page_apart() -> None:
    tile = small_tile()
    for static in ({"k": 1024}, {}):
        gemm = Gemm(("a", "b", "c"), general(static, "rows", "cols"), HERE, tile)
        for m in (1, 6, 50):
            check(gemm, (1, m, 33, 1024), ("rows", "cols"))
    packed = Gemm(("a", "b", "c"), general({"m": 50, "k": 1024}, "packed", "rows"), HERE, tile)
    check(packed, (1, 50, 77, 1024), ("packed", "rows"))


@pytest.mark.parametrize(
    ("mcpu", "dtype"),
    [("x86-64-v3", "float32"), ("x86-64-v3", "float64"), ("x86-64", "float32"),
     ("cascadelake", "float64")],
)  # fmt: skip
def test_other_targets_and_doubles(mcpu: str, dtype: str) -> None:
    target = cpu(mcpu)
    tile = tile_for(target, dtype)
    direct = "x86-64-v3" in mcpu
    gemm = Gemm(
        ("a", "b", "c"), general({}, "rows", "cols", dtype, direct=direct), target, tile, dtype
    )
    run_on(target)
    for m in (0, 1, tile.m_r + 1, 31):
        check(gemm, (2, m, tile.n_r + 1, 29), ("rows", "cols"), 1)


@pytest.mark.parametrize("b_form", ["rows", "cols", "element"])
def test_narrow_operands_are_widened(b_form: str) -> None:
    tile = small_tile()
    gemm = Gemm(("a", "b", "c"), general({}, "rows", b_form, "int8", "int32"), HERE, tile,
                "int8", "int32")  # fmt: skip
    for m, n, k in ((1, 1, 1), (7, 35, 30), (9, 64, 16)):
        a = RNG.integers(-128, 128, (1, m, k)).astype("int8")
        b = RNG.integers(-128, 128, (1, k, n)).astype("int8")
        c = np.zeros((m, n), "int32")
        laid = np.ascontiguousarray(lay_out(b, b_form, tile, "b"))
        gemm.runner({"a": a, "b": laid, "c": c}, batch=1, m=m, n=n, k=k)(1)
        np.testing.assert_array_equal(c, a[0].astype("int32") @ b[0].astype("int32"))


def test_static_sizes_need_few_kernels() -> None:
    tile = tile_for()
    static = {"batch": 1, "m": 2 * tile.m_r, "n": tile.n_r, "k": 40}
    gemm = Gemm(("a", "b", "c"), general(static, "rows", "packed"), HERE, tile)
    check(gemm, (1, 2 * tile.m_r, tile.n_r, 40))
    kernels = [f for f in gemm.functions if f.name_hint.startswith("gemm_float32")]
    assert len(kernels) == 1


def test_epilogue_with_bias_relu_and_permuted_store() -> None:
    """[b, s, h * d] rows stored as [b, h, s, d], after bias and relu; d spans vectors."""
    tile = tile_for()
    heads, width, k = 3, 32, 24
    n = heads * width

    def describe(_b: Any, bufs: dict[str, Any], sizes: dict[str, Any]) -> macro_kernel.GemmSpec:
        m, seq = sizes["m"], sizes["batch"]  # rows are (batch, seq); seq is passed as `batch`
        bias, c = bufs["bias"], bufs["c"]

        def place(i: Any, j: Any) -> Any:
            outer, s = tirx.truncdiv(i, seq), tirx.truncmod(i, seq)
            h, d = tirx.truncdiv(j, tirx.IntImm("int64", width)), j % width
            return ((outer * heads + h) * seq + s) * width + d

        def finish(b: Any, i: Any, j: Any, lanes: int, v: Any) -> None:
            zero = splat(tirx.const(0, "float32"), lanes)
            b.store(c, ramp(place(i, j), lanes), tirx.max(v + at(bias, j, lanes), zero))

        def vector(b: Any, g: Any, i: Any, j: Any, lanes: int, v: Any) -> bool:
            if width % lanes:
                return False
            finish(b, i, j, lanes, v)
            return True

        return macro_kernel.GemmSpec(
            1, m, n, k,
            Operand(affine=Affine(bufs["a"], lambda _b, g: g * 0, k, 1)),
            Operand(bufs["b"]),
            macro_kernel.Stores(lambda b, g, i, j, v: finish(b, i, j, 1, v), vector),
        )  # fmt: skip

    gemm = Gemm(("a", "b", "bias", "c"), describe, HERE, tile)
    for outer, seq in ((1, 1), (2, 5), (3, 11)):
        m = outer * seq
        a = RNG.standard_normal((m, k)).astype("float32")
        b = RNG.standard_normal((k, n)).astype("float32")
        bias = RNG.standard_normal(n).astype("float32")
        c = np.full(m * n + 8, CANARY, "float32")
        panels = pack_constant(PanelsOfB(tile.n_r, tile.lanes), b)
        gemm.runner({"a": a, "b": panels, "bias": bias, "c": c}, batch=seq, m=m)(1)
        ref = np.maximum(a @ b + bias, 0).reshape(outer, seq, heads, width).transpose(0, 2, 1, 3)
        np.testing.assert_allclose(c[: m * n].reshape(ref.shape), ref, rtol=1e-4, atol=1e-4)
        assert np.all(c[m * n :] == CANARY)


def test_tiles_follow_the_registers() -> None:
    isa = macro_kernel.isa_of(tvm.target.Target({"kind": "llvm", "mcpu": "cascadelake"}))
    assert (isa.lanes_f32, isa.registers, isa.fma) == (16, 32, True)
    assert (
        macro_kernel.isa_of(tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})).lanes_f32 == 8
    )
    for lanes, registers in ((16, 32), (8, 16), (4, 32), (4, 16)):
        for dtype in ("float32", "float64"):
            tile = macro_kernel.default_tile(macro_kernel.Isa(lanes, registers, True), dtype)
            assert tile.m_r * tile.vectors + tile.vectors + 1 <= registers
            assert macro_kernel.GemmTile.from_json(tile.to_json()) == tile
    with pytest.raises(ValueError, match="multiple of lanes"):
        macro_kernel.GemmTile(m_r=2, n_r=5, lanes=2)


def test_missing_operand_is_reported() -> None:
    store = macro_kernel.Stores(lambda *_: None)
    spec = macro_kernel.GemmSpec(1, 4, 4, 4, Operand(), Operand(), store)
    scratch = tirx.decl_buffer((64,), "float32")
    tile = tile_for()
    with pytest.raises(ValueError, match=r"B: expected packed, .* found none"):
        macro_kernel.gemm_body(spec, tile, macro_kernel.MicroKernels(), scratch, 0, 1)


SMALL = (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)


@pytest.mark.parametrize(
    ("b_form", "mcpu", "dtype"),
    [
        ("rows", "cascadelake", "float32"),
        ("cols", "cascadelake", "float32"),
        ("rows", "x86-64-v3", "float64"),
    ],
)
def test_small_products_in_every_way(b_form: str, mcpu: str, dtype: str) -> None:
    """Few tiles, columns that share vectors, lines, inner products: sizes around all borders."""
    target = cpu(mcpu)
    tile = small_tile(lanes=macro_kernel.isa_of(target).lanes_f32 * 4 // np.dtype(dtype).itemsize)
    describe = general({}, "rows", b_form, dtype, direct=True)
    gemm = Gemm(("a", "b", "c"), describe, target, tile, dtype)
    assert any("gemm_narrow" in f.name_hint for f in gemm.functions)
    run_on(target)
    for n in SMALL:
        for k in (0, 1, 7, 16, 37, 131):
            for m in (0, 1, 3, 4, 9, 13, 40):
                check(gemm, (2, m, n, k), ("rows", b_form), offset=1 + n % 3)
    for n in (1, 2, 6):
        check(gemm, (2, 70, n, 100), ("rows", b_form), split=True)


def test_a_column_that_is_no_row() -> None:
    """One column of a matrix of many: B's rows are far apart, and it is gathered first."""
    wide, k = 5, 40

    def describe(_b: Any, bufs: dict[str, Any], sizes: dict[str, Any]) -> macro_kernel.GemmSpec:
        a, b_, c = bufs["a"], bufs["b"], bufs["c"]
        m, n = sizes["m"], sizes["n"]
        return macro_kernel.GemmSpec(
            1, m, n, k,
            Operand(affine=Affine(a, lambda _b, g: g * 0, k, 1)),
            Operand(affine=Affine(b_, lambda _b, g: g * 0 + 2, 1, sizes["batch"])),
            plain_store(c, m, n),
            direct=macro_kernel.Direct(c, lambda _b, g: g * 0, n),
        )  # fmt: skip

    gemm = Gemm(("a", "b", "c"), describe, HERE, small_tile())
    for m, n in ((1, 1), (11, 1), (11, 2), (30, 3)):
        a, b = (RNG.standard_normal(s).astype("float32") for s in ((m, k), (k, wide)))
        arrays = {"a": a.ravel(), "b": b.ravel(), "c": np.zeros(m * n, "float32")}
        gemm.runner(arrays, batch=wide, m=m, n=n, k=k)(1)
        expected = a.astype("float64") @ b[:, 2 : 2 + n].astype("float64")
        np.testing.assert_allclose(arrays["c"].reshape(m, n), expected, rtol=1e-4, atol=1e-4)


def test_products_with_an_epilogue_have_tiles_only() -> None:
    gemm = Gemm(("a", "b", "c"), general({}, "rows", "rows"), HERE, small_tile())
    assert not any("gemm_narrow" in f.name_hint for f in gemm.functions)
    for n, k in ((1, 40), (3, 7), (33, 20)):
        check(gemm, (2, 11, n, k), ("rows", "rows"), offset=1)
