"""The optimisers: AdamW, and Muon beside it, on flat buffers of K runs."""

from simulator.training.optim.flat import FlatAdamW
from simulator.training.optim.layout import Segment, Slot

__all__ = ["FlatAdamW", "Segment", "Slot"]
