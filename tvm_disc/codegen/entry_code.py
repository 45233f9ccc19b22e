"""C source of the entry points of a saved program, compiled for the baseline of the architecture.

    __tvm_ffi_NAME            function NAME of the best level that the processor supports
    __tvm_ffi_NAME_level_K    function NAME of level K
    __tvm_ffi_tvm_disc_check  (K) -> the level that runs: K, or the best one if K is -1
    tvm_disc_levels           the names of the levels, one per line

When the library is loaded, a constructor checks the processor once and fills tables of function
addresses. Before that, and for levels that do not run here, the tables refer to functions that
raise the error. Code of a level is called only through these tables; its own symbols are hidden.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tvm_disc.abi.entries import BIND, CHECK
from tvm_disc.codegen.threads.home import THREADS
from tvm_disc.errors import WrongProcessor
from tvm_disc.support import processor
from tvm_disc.support.processor import Level

PREFIX = "__tvm_ffi_"
# variables of a library that TVM's loader sets; all levels share them
_CONTEXT = ("__TVM", "__tvm_ffi__library_")


def own_name(level: int | str, name: str) -> str | None:
    """Return the library's symbol for a name that an object defines; None if the name is kept.

    Args:
        level: the number of the object's level, or the name of another part, such as ``threads``.
    """
    return None if name.startswith(_CONTEXT) else f"disc_{level}_{name}"


def entry_source(levels: Sequence[Level], entries: Sequence[str], threads: bool) -> str:
    """Return the C source.

    Args:
        entries: the functions that every level has, without their prefix.
        threads: whether the library contains the thread pool (``codegen.threads``).
    """
    architecture = levels[0].architecture
    known = list(processor.SETS.get(architecture, {}))
    rows = range(len(levels))
    return _SOURCE.format(
        machine=_MACHINE.get(architecture, _NO_MACHINE) % _rows(architecture),
        hidden=processor.HIDDEN,
        error=WrongProcessor.__name__,
        level_count=len(levels),
        entry_count=len(entries),
        names=", ".join(json.dumps(level.name) for level in levels),
        level_text=json.dumps("\n".join(level.name for level in levels)),
        needs=_lists([level.sets for level in levels], known),
        plain_names=", ".join(json.dumps(n) for n in processor.PLAIN.get(architecture, {"": ()})),
        plain_needs=_lists(list(processor.PLAIN.get(architecture, {"": ()}).values()), known),
        room=sum(len(", ".join(v.sets)) + len(v.name) + 32 for v in levels) + 160,
        code="\n".join(_declared(k, name) for k in rows for name in entries),
        tables=",\n  ".join(
            "{" + ", ".join(f"code_{k}_{name}" for name in entries) + "}" for k in rows
        ),
        refusals="\n".join(f"REFUSE({k})" for k in range(len(levels) + 1)),
        refuse=",\n  ".join(
            "{" + ", ".join([f"refuse_{k}"] * len(entries)) + "}" for k in range(len(levels) + 1)
        ),
        bind=entries.index(BIND),
        threads=_THREADS if threads else _NO_THREADS,
        check=f"{PREFIX}{CHECK}",
        entries="\n".join(
            f"ENTRY({PREFIX}{name}{f'_level_{k}' if k < len(levels) else ''}, {k}, {number})"
            for k in range(len(levels) + 1)
            for number, name in enumerate(entries)
        ),
    )


def _declared(level: int, name: str) -> str:
    label = own_name(level, PREFIX + name)
    return f'extern int code_{level}_{name}(CALL) __asm__("{label}");'


def _lists(wanted: Sequence[Sequence[str]], known: Sequence[str]) -> str:
    """Return a C initializer for each list in ``wanted``: the positions of its names in ``known``,
    terminated by -1.
    """
    numbers = [[*(known.index(name) for name in names), -1] for names in wanted]
    width = max(map(len, numbers))
    rows = ["{" + ", ".join(map(str, row)) + "}" for row in numbers]
    return f"[{width}] = {{" + ", ".join(rows) + "}"


def _rows(architecture: str) -> str:
    if architecture == "x86_64":
        return ",\n  ".join(
            "{" + ", ".join([json.dumps(name), *(f"{value}u" for value in at)]) + "}"
            for name, at in processor.X86.items()
        )
    return ",\n  ".join(
        f'{{"{name}", {at.word}, {at.mask}ul}}' for name, at in processor.AARCH64.items()
    )


_X86 = """
#if !defined(__x86_64__)
#error "the program is for x86-64, this compiler is for another architecture"
#endif
#include <cpuid.h>
typedef struct {
  const char* name;
  uint32_t leaf, subleaf, reg, bit, state, least;
} Set;
static const Set kSets[] = {
  %s
};
/* The registers of a leaf. They are cached, because CPUID traps to the hypervisor in a virtual
   machine, which is slow. */
static const uint32_t* Leaf(uint32_t leaf, uint32_t subleaf) {
  static struct { uint32_t leaf, subleaf, r[4]; } known[16];
  static int count = 0;
  for (int k = 0; k < count; ++k) {
    if (known[k].leaf == leaf && known[k].subleaf == subleaf) return known[k].r;
  }
  if (count == 16) --count;
  uint32_t* r = known[count].r;
  known[count].leaf = leaf;
  known[count++].subleaf = subleaf;
  if (!__get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3])) memset(r, 0, 16);
  return r;
}
static int Reported(const Set* set) {
  if (set->state) {
    /* Whether the system saves the registers: OSXSAVE, then XCR0. */
    uint32_t low, high;
    if (!(Leaf(1, 0)[2] >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & set->state) != set->state) return 0;
  }
  uint32_t value = Leaf(set->leaf, set->subleaf)[set->reg] >> set->bit;
  return (value & (set->least > 1 ? 255u : 1u)) >= set->least;
}"""

_AARCH64 = """
#if !defined(__aarch64__)
#error "the program is for AArch64, this compiler is for another architecture"
#endif
#include <sys/auxv.h>
typedef struct {
  const char* name;
  int word;
  unsigned long mask;
} Set;
static const Set kSets[] = {
  %s
};
static int Reported(const Set* set) {
  return (getauxval(set->word ? AT_HWCAP2 : AT_HWCAP) & set->mask) == set->mask;
}"""

_NO_MACHINE = """
typedef struct { const char* name; } Set;
static const Set kSets[] = {{0}};
static int Reported(const Set* set) { return set->name != 0; } /* %.0s */"""

_MACHINE = {"x86_64": _X86, "aarch64": _AARCH64}

_THREADS = f"""
extern int threads(CALL) __asm__("{own_name("threads", PREFIX + THREADS)}");
"""
_NO_THREADS = """
static int threads(CALL) {
  (void)self; (void)args; (void)count; (void)result;
  return 0;
}
"""

_SOURCE = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{machine}

enum {{ kLevels = {level_count}, kEntries = {entry_count}, kRoom = {room} }};
typedef struct {{ int32_t type_index; uint32_t padding; int64_t value; }} Any;
#define CALL void* self, const Any* args, int32_t count, Any* result
typedef int (*Entry)(CALL);
extern const char tvm_disc_constants[];
extern void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
{code}
{threads}
static const char* const kNames[] = {{{names}}};
const char tvm_disc_levels[] = {level_text};
static const int8_t kNeeds[]{needs};
static const char* const kPlainNames[] = {{{plain_names}}};
static const int8_t kPlainNeeds[]{plain_needs};

/* The reason why each level does not run here, or ""; the last text covers all levels. */
static char why[kLevels + 1][kRoom];
static int best = -1;

static int Raise(int level) {{
  TVMFFIErrorSetRaisedFromCStr("{error}", why[level]);
  return -1;
}}
#define REFUSE(LEVEL) static int refuse_##LEVEL(CALL) {{ \\
  (void)self; (void)args; (void)count; (void)result; return Raise(LEVEL); }}
{refusals}

static const Entry kCode[kLevels][kEntries] = {{
  {tables}
}};
static Entry table[kLevels + 1][kEntries] = {{
  {refuse}
}};
#define ENTRY(NAME, LEVEL, NUMBER) \\
  int NAME(CALL) {{ return table[LEVEL][NUMBER](self, args, count, result); }}
{entries}

int {check}(CALL) {{
  int level = kLevels;
  (void)self;
  if (count > 0 && args[0].type_index == 1 && args[0].value >= 0 && args[0].value < kLevels) {{
    level = (int)args[0].value;
  }}
  if (why[level][0]) return Raise(level);
  result->type_index = 1;
  result->padding = 0;
  result->value = level < kLevels ? level : best;
  return 0;
}}

static int Hidden(const char* name) {{
  const char* at = getenv("{hidden}");
  size_t length = strlen(name);
  while (at != NULL && *at) {{
    size_t n = strcspn(at, ", ");
    if (n && at[n - 1] == '*' ? length >= n - 1 && !strncmp(name, at, n - 1)
                              : length == n && !strncmp(name, at, n)) {{
      return 1;
    }}
    at += n;
    at += strspn(at, ", ");
  }}
  return 0;
}}

static int Lacks(int set) {{ return Hidden(kSets[set].name) || !Reported(&kSets[set]); }}

/* Appends the names of the missing instruction sets to `text`, unless it is NULL; returns their
   number. */
static int Missing(const int8_t* needs, char* text) {{
  int found = 0;
  for (; *needs >= 0; ++needs) {{
    if (!Lacks(*needs)) continue;
    if (text) strcat(strcat(text, found ? ", " : ""), kSets[*needs].name);
    ++found;
  }}
  return found;
}}

static const char* Works(void) {{
  for (size_t k = 0; k < sizeof(kPlainNames) / sizeof(kPlainNames[0]); ++k) {{
    if (!Missing(kPlainNeeds[k], NULL)) return kPlainNames[k];
  }}
  return "";
}}

static void Explain(int from, int to, char* text) {{
  strcat(text, "this processor lacks ");
  for (int k = from; k < to; ++k) {{
    strcat(text, k > from ? ", and " : "");
    Missing(kNeeds[k], text);
    strcat(strcat(strcat(text, " (for "), kNames[k]), ")");
  }}
  strcat(strcat(text, "; build the program with target=\\"llvm -mcpu="), Works());
  strcat(text, "\\"");
}}

__attribute__((constructor)) static void Choose(void) {{
  Any home = {{1, 0, 0}};
  threads(0, NULL, 0, &home);
  for (int k = 0; k < kLevels; ++k) {{
    if (Missing(kNeeds[k], NULL)) {{
      Explain(k, k + 1, why[k]);
      continue;
    }}
    Any given[2] = {{{{1, 0, (int64_t)(intptr_t)tvm_disc_constants}}, home}}, none = {{0, 0, 0}};
    memcpy(table[k], kCode[k], sizeof(table[k]));
    memcpy(table[kLevels], kCode[k], sizeof(table[k]));
    table[k][{bind}](0, given, 2, &none);
    best = k;
  }}
  if (best < 0) Explain(0, kLevels, why[kLevels]);
}}
"""

__all__ = ["PREFIX", "entry_source", "own_name"]
