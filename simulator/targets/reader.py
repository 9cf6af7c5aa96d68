"""From a configuration file, a folder that holds one, or a preset's name to a target."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec
from simulator.targets.counted import gpt2_tensors, gpt_oss_tensors
from simulator.targets.deepseek import read_deepseek
from simulator.targets.deepseek_v4 import deepseek_v4_tensors
from simulator.targets.inference import from_inference, is_inference_file
from simulator.targets.keys import KeyReader
from simulator.targets.plain import read_dense, read_plain_moe
from simulator.targets.recipes import recipe_of_model
from simulator.targets.target import Target

__all__ = ["KNOWN_TYPES", "preset_names", "read_config", "read_target"]

KNOWN_TYPES = (
    "deepseek",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "gpt2",
    "gpt_oss",
    "kimi_k2",
    "llama",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
)
"""Families that are at least counted."""

_LARGEST_FILE_BYTES = 16 * 2**20
_COUNTED_ONLY = "Only DeepSeek, Kimi-K2 and dense Llama and Qwen targets are trained; this one "


def preset_names() -> tuple[str, ...]:
    """Return the names of the configurations that come with the tool."""
    folder = resources.files("simulator.targets") / "presets"
    names = (file.name for file in folder.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def read_target(source: Path | str) -> Target:
    """Read a target.

    Parameters
    ----------
    source
        A configuration file, a folder that holds a ``config.json``, or a preset's name such as
        ``deepseek-v3``. A file or such a folder of that name wins over the preset.

    Raises
    ------
    SpecError
        If there is nothing to read, it is no JSON table, its family is unknown, or a key does not
        pass.

    Examples
    --------
    >>> read_target("deepseek-v3").model.dim
    7168
    """
    path = Path(source)
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    if path.is_file():
        folder = path.resolve().parent.name
        return read_config(_load(path), folder if path.name == "config.json" else path.stem)
    if str(source) in preset_names():
        file = resources.files("simulator.targets") / "presets" / f"{source}.json"
        return read_config(_parse(str(source), file.read_bytes()), str(source))
    raise _no_such_source(source, path)


def read_config(values: Mapping[str, Any], name: str) -> Target:
    """Turn the table of a configuration into a target; errors as in :func:`read_target`."""
    reader = KeyReader(values)
    if is_inference_file(values):
        reader.values = from_inference(reader)
    reader = _language_model(reader)
    match _model_type(reader):
        case ("deepseek" | "deepseek_v2" | "deepseek_v3" | "deepseek_v32" | "kimi_k2") as family:
            return _trainable(reader, name, family, read_deepseek(reader, family))
        case ("llama" | "qwen2" | "qwen3") as family:
            return _trainable(reader, name, family, read_dense(reader, family))
        case ("mixtral" | "qwen3_moe") as family:
            return _counted_moe(reader, name, family, read_plain_moe(reader, family))
        case "gpt2":
            return _counted(reader, name, "gpt2", tuple(gpt2_tensors(reader)))
        case "gpt_oss":
            return _counted(reader, name, "gpt_oss", tuple(gpt_oss_tensors(reader)))
        case "deepseek_v4":
            return _counted(reader, name, "deepseek_v4", tuple(deepseek_v4_tensors(reader)))
        case unknown:
            raise _unknown_type(reader, unknown)


def _language_model(reader: KeyReader) -> KeyReader:
    """Return the reader of the language model inside a configuration of several parts."""
    inner = reader.child("text_config")
    if inner is None or reader.has("hidden_size"):
        return reader
    reader.notes.append("Only the language model in text_config is read; other parts are not.")
    outer_tie = reader.values.get("tie_word_embeddings")
    if outer_tie is not None and not inner.has("tie_word_embeddings"):
        inner.values = {**inner.values, "tie_word_embeddings": outer_tie}
    return inner


def _model_type(reader: KeyReader) -> object:
    if "model_type" not in reader.values:
        raise SpecError(
            f"{reader.path}.model_type",
            "is required",
            "nothing",
            f"Add the family, one of: {', '.join(KNOWN_TYPES)}.",
        )
    return reader.values["model_type"]


def _unknown_type(reader: KeyReader, found: object) -> SpecError:
    close = difflib.get_close_matches(str(found), KNOWN_TYPES, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else "The structure of others is not known."
    return SpecError(
        f"{reader.path}.model_type", f"must be one of {', '.join(KNOWN_TYPES)}", found, hint
    )


def _trainable(reader: KeyReader, name: str, family: str, model: ModelSpec) -> Target:
    tensors = list_tensors(model)
    model, source = _settle(reader, model)
    missing = list(dict.fromkeys(reader.missing))
    reasons = [*dict.fromkeys(reader.unsupported)]
    if missing:
        reasons.append(f"Missing for training: {', '.join(missing)}. Add the published values.")
    return Target(
        name=name,
        model_type=family,
        model=None if missing else model,
        tensors=tensors,
        is_trainable=not reasons,
        why_not=" ".join(reasons),
        warnings=tuple(dict.fromkeys(reader.notes)),
        init_std_source=source,
    )


def _settle(reader: KeyReader, model: ModelSpec) -> tuple[ModelSpec, str]:
    """Take from the paper what it says, where the published model is recognised by its shape."""
    recipe = recipe_of_model(model)
    source = f"{reader.path}.initializer_range"
    if recipe is None:
        return model, source
    if recipe.init_std is not None:
        _answered(reader, "initializer_range")
        if model.init_std != recipe.init_std:
            reader.notes.append(
                f"Recognised as {recipe.name}: initial standard deviation {recipe.init_std} as "
                f"published ({recipe.source}), whatever the file's initializer_range."
            )
        model, source = replace(model, init_std=recipe.init_std), recipe.source
    if recipe.aux_loss_alpha is not None and not reader.has("aux_loss_alpha"):
        _answered(reader, "aux_loss_alpha")
        reader.notes.append(
            f"Recognised as {recipe.name}: balance loss of weight {recipe.aux_loss_alpha} as "
            f"published ({recipe.source})."
        )
        model = _with_balance_loss(model, recipe.aux_loss_alpha)
    return model, source


def _with_balance_loss(model: ModelSpec, alpha: float) -> ModelSpec:
    moe = model.moe
    if moe is None:
        return model
    balance = "aux_loss" if moe.balance == "none" else moe.balance
    return replace(model, moe=replace(moe, aux_loss_alpha=alpha, balance=balance))


def _answered(reader: KeyReader, key: str) -> None:
    """Take back what was remembered of a missing key that the paper answers."""
    path = f"{reader.path}.{key}"
    reader.missing[:] = [missing for missing in reader.missing if missing != path]
    reader.notes[:] = [note for note in reader.notes if not note.startswith(f"{path} is not")]


def _counted(reader: KeyReader, name: str, family: str, tensors: tuple[TensorInfo, ...]) -> Target:
    return Target(
        name=name,
        model_type=family,
        model=None,
        tensors=tensors,
        is_trainable=False,
        why_not=f"{_COUNTED_ONLY}({family}) is counted.",
        warnings=tuple(dict.fromkeys(reader.notes)),
        init_std_source="not read",
    )


def _counted_moe(reader: KeyReader, name: str, family: str, model: ModelSpec) -> Target:
    counted = _counted(reader, name, family, list_tensors(model))
    return counted if reader.missing else replace(counted, model=model)


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise SpecError(
                str(path),
                "must be a model configuration, a few kilobytes of JSON",
                f"{path.stat().st_size} bytes",
                "Name the config.json.",
            )
        return _parse(str(path), path.read_bytes())
    except OSError as error:
        raise SpecError(
            str(path), "must be readable", str(error), "Check the path and its permissions."
        ) from None


def _parse(path: str, content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SpecError(
            path, "must be UTF-8 text", f"byte {error.start}", "Save it as UTF-8."
        ) from None
    except json.JSONDecodeError as error:
        raise SpecError(path, "must be valid JSON", str(error), "Correct it.") from None
    except (RecursionError, ValueError) as error:
        raise SpecError(path, "must be plain JSON", str(error), "Correct it.") from None
    if not isinstance(values, dict):
        raise SpecError(
            path, "must hold a JSON object", type(values).__name__, "Name a model's config.json."
        )
    return values


def _no_such_source(source: Path | str, path: Path) -> SpecError:
    if path.is_dir():
        return SpecError(
            str(source), "must hold a config.json", "a folder without one", "Name the file."
        )
    names = preset_names()
    close = difflib.get_close_matches(str(source), names, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Presets: {', '.join(names)}."
    return SpecError(
        str(source),
        "must be a file, a folder with a config.json, or a preset",
        "none of them",
        hint,
    )
