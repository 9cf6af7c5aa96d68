"""The model: mathematics as plain functions that broadcast over a leading axis of models.

Shapes in this package carry an optional leading axis K. A solo model has parameters ``[out, in]``
and activations ``[N, D]``; K models trained together have ``[K, out, in]`` and ``[K, N, D]`` and go
through the same functions. No function asks which of the two it was given.
"""

from simulator.model.block import Block
from simulator.model.initialise import initial_values, initialise
from simulator.model.loss import LossParts, TokenNLL
from simulator.model.transformer import Transformer, build_model

__all__ = [
    "Block",
    "LossParts",
    "TokenNLL",
    "Transformer",
    "build_model",
    "initial_values",
    "initialise",
]
