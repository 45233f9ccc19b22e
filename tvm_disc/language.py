"""``language_model``: a model that generates text, compiled into one step."""

from __future__ import annotations

from dataclasses import replace

from tvm_disc.compile import build
from tvm_disc.errors import BadOption
from tvm_disc.frontends.detect import is_file
from tvm_disc.frontends.sources import Source
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.text.language import LanguageModel
from tvm_disc.support.late import Late
from tvm_disc.typing import TargetLike

_positions_of = Late("tvm_disc.frontends.gguf.decoder:positions_of")
_step_of = Late("tvm_disc.frontends.torch.language:step_of")


def language_model(
    source: Source,
    *,
    target: TargetLike = None,
    options: Options | None = None,
    positions: int = 0,
) -> LanguageModel:
    """Compile a language model into one program that reads prompts and generates tokens.

    Caches of keys and values are extended in place. Logits are computed for the last token only.

    Args:
        source: a causal language model of ``transformers``, such as
            ``AutoModelForCausalLM.from_pretrained(name)``; the path of a GGUF file of the LLaMA or
            Qwen family; or an executable whose inputs have the
            names of :class:`LanguageModel`, such as ``tvm_disc.load(path)`` of a saved
            ``lm.program``.
        target: as in :func:`build`.
        options: as in :func:`build`, such as ``Options(weights="int4")``.
        positions: maximum number of tokens of a sequence; 0 takes the limit of the model.

    Raises:
        TypeMismatch: ``source`` is not a causal language model.
        BadInput, BadOption: an argument or option is not valid.
        Unsupported: PyTorch cannot export the model, or it has a cache of an unknown kind.

    Examples:
        >>> lm = tvm_disc.language_model(model)
        >>> for words in tvm_disc.generate(lm, [[1, 2, 3]], 40, stop=[2]):
        ...     print(words)
    """
    if isinstance(source, Executable):
        return LanguageModel(source, positions)
    options = Options.from_env(options)
    if options.state or options.state_window:
        name = "state" if options.state else "state_window"
        raise BadOption(f"{name}: language_model chooses the caches; leave it out")
    if is_file(source, ".gguf"):
        options = replace(options, state=["past_*"])
        program = build(source, target=target, options=options)
        return LanguageModel(program, positions or _positions_of(source))
    step = _step_of(source)
    program = build(
        step.module,
        target=target,
        options=replace(options, state=step.state, state_window=step.window),
        example_inputs=step.inputs,
        dynamic_shapes=step.shapes,
    )
    return LanguageModel(program, positions or step.positions)


__all__ = ["language_model"]
