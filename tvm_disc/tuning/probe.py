"""A small library that is sent to another machine to query its GPU.

It is C code for any processor of the architecture, since the machine's processor is not yet known.

    tvm_disc_card(out)         fills the words of ``out``, int64: see ``CARD_WORDS``
    tvm_disc_address(tensor)   returns the address of the tensor's data
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tvm_disc.codegen.cuda.card import DRIVER, MAJOR, MINOR, Card
from tvm_disc.codegen.cuda.library import LIBRARIES
from tvm_disc.codegen.export import c_compiler
from tvm_disc.codegen.linker import make
from tvm_disc.errors import ArtifactError

CARD, ADDRESS = "tvm_disc_card", "tvm_disc_address"
FILE = "tvm_disc_probe.so"
FOUND, LIBRARY, ARCHITECTURE, NAME = range(4)  # words of the result; the first two are 1 or 0
NAME_BYTES = 256
CARD_WORDS = NAME + NAME_BYTES // 8


def made(compiler: str | None) -> bytes:
    """Return the bytes of the library.

    Args:
        compiler: a C compiler for the other machine; None uses this machine's.

    Raises:
        ArtifactError: no compiler was found, or it failed.
    """
    command = c_compiler(compiler)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "probe.c", Path(folder) / FILE
        source.write_text(_SOURCE)
        options = ["-std=gnu11", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"]
        wrong = make([command, *options], library)
        if wrong is not None:
            raise ArtifactError(
                f"{command} could not compile the library that queries the GPU: {wrong}"
            )
        return library.read_bytes()


def card_of(words: np.ndarray) -> tuple[Card | None, bool]:
    """Return (the GPU or None, whether cuBLASLt is found there)."""
    if not words[FOUND]:
        return None, False
    name = words[NAME:].tobytes().partition(b"\0")[0].decode(errors="replace")
    return Card(name, int(words[ARCHITECTURE])), bool(words[LIBRARY])


_LOOKS = "".join(f'  if (!library) library = dlopen("{n}", RTLD_NOW);\n' for n in LIBRARIES)
_SOURCE = f"""
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

typedef struct {{
  int32_t kind;
  uint32_t padding;
  union {{ int64_t number; char* place; }} value;
}} Any;
/* The fields of DLPack's tensor; in TVM's tensor object, they follow a header of kHeader bytes. */
typedef struct {{
  char* data;
  int32_t device[2], ndim;
  uint32_t dtype;
  int64_t *shape, *strides;
  uint64_t offset;
}} Tensor;
enum {{ kInteger = 1, kObject = 70, kHeader = 24 }};
#define CALL void* self, const Any* args, int32_t count, Any* result

static char* Data(const Any* given) {{
  int skip = given->kind == kObject ? kHeader : 0;
  const Tensor* tensor = (const Tensor*)(given->value.place + skip);
  return tensor->data + tensor->offset;
}}

int __tvm_ffi_{ADDRESS}(CALL) {{
  (void)self, (void)count;
  result->kind = kInteger;
  result->value.number = (int64_t)(intptr_t)Data(args);
  return 0;
}}

typedef int (*Call)();
int __tvm_ffi_{CARD}(CALL) {{
  (void)self, (void)count, (void)result;
  int64_t* words = (int64_t*)Data(args);
  memset(words, 0, {CARD_WORDS} * sizeof(int64_t));
  void *driver = dlopen("{DRIVER}", RTLD_NOW), *library = 0;
  if (!driver) return 0;
  Call init = (Call)dlsym(driver, "cuInit");
  Call counts = (Call)dlsym(driver, "cuDeviceGetCount");
  Call attribute = (Call)dlsym(driver, "cuDeviceGetAttribute");
  Call names = (Call)dlsym(driver, "cuDeviceGetName");
  int devices = 0, major = 0, minor = 0;
  if (!init || !counts || !attribute || !names) return 0;
  if (init(0) || counts(&devices) || !devices) return 0;
  if (attribute(&major, {MAJOR}, 0) || attribute(&minor, {MINOR}, 0)) return 0;
  if (names((char*)(words + {NAME}), {NAME_BYTES} - 1, 0)) return 0;
{_LOOKS}  words[{LIBRARY}] = library != 0;
  words[{ARCHITECTURE}] = 10 * major + minor;
  words[{FOUND}] = 1;
  return 0;
}}
"""

__all__ = ["ADDRESS", "CARD", "CARD_WORDS", "FILE", "card_of", "made"]
