"""DeepSeek's own inference files, brought to the keys of their Hugging Face configurations.

They name dimensions as the inference code does (``dim``, ``moe_inter_dim``, ``n_dense_layers``;
``q_lora_rank`` 0 for a full-rank query), leave out what is the default of ``ModelArgs`` there,
and say nothing of training.

References
----------
``inference/model.py`` and ``inference/configs`` of the repositories DeepSeek-V3 and
DeepSeek-V3.2-Exp: class ``ModelArgs``, functions ``precompute_freqs_cis`` and class ``Gate``.
"""

from collections.abc import Mapping
from typing import Any

from simulator.targets.keys import KeyReader, real, whole, word

__all__ = ["from_inference", "is_inference_file"]

_DEFAULT = "the default of ModelArgs in DeepSeek's inference/model.py"
_CODE = "fixed in DeepSeek's inference/model.py"


def is_inference_file(values: Mapping[str, Any]) -> bool:
    """Return whether the keys are those of DeepSeek's inference code."""
    return "model_type" not in values and "dim" in values and "moe_inter_dim" in values


def from_inference(reader: KeyReader) -> dict[str, Any]:
    """Return the same table with the missing Hugging Face keys added, each with a note."""
    score = reader.default("scoring_func", word(("sigmoid", "softmax")), "softmax", _DEFAULT)
    is_v3 = score == "sigmoid"
    family = "deepseek_v3" if is_v3 else "deepseek_v2"
    if "index_n_heads" in reader.values:
        family = "deepseek_v32"
    added = {
        "model_type": family,
        "scoring_func": score,
        "topk_method": "noaux_tc" if is_v3 else "group_limited_greedy",
        "norm_topk_prob": is_v3,
        "n_group": reader.default("n_group", whole(), 1, _DEFAULT),
        "topk_group": reader.default("topk_group", whole(), 1, _DEFAULT),
        "rope_theta": reader.default("rope_theta", real(1.0), 10000.0, _DEFAULT),
        "rope_scaling": _yarn(reader),
        "max_position_embeddings": reader.default(
            "max_position_embeddings", whole(), 16384, _DEFAULT
        ),
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
    }
    reader.notes.append(
        f"SwiGLU, norm epsilon 1e-6, untied head and the form of the routing are {_CODE}; "
        f"read as {family}."
    )
    names = {"scoring_func": "score_func", "n_group": "n_expert_groups"}
    names |= {"topk_group": "n_limited_groups", "max_position_embeddings": "max_seq_len"}
    known = {key: value for key, value in added.items() if names.get(key) not in reader.values}
    return {**known, **reader.values}


def _yarn(reader: KeyReader) -> dict[str, Any] | None:
    """Return the scaling; the code multiplies the softmax scale by (0.1 mscale ln factor + 1)^2."""
    original = reader.default("original_seq_len", whole(), 4096, _DEFAULT)
    length = reader.default("max_position_embeddings", whole(), 16384, _DEFAULT)
    factor = reader.default("rope_factor", real(1.0), 40.0, _DEFAULT)
    fast = reader.default("beta_fast", real(), 32.0, _DEFAULT)
    slow = reader.default("beta_slow", real(), 1.0, _DEFAULT)
    mscale = reader.default("mscale", real(), 1.0, _DEFAULT)
    if length <= original:
        return None
    return {
        "type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        "beta_fast": fast,
        "beta_slow": slow,
        "mscale": mscale,
        "mscale_all_dim": mscale,
    }
