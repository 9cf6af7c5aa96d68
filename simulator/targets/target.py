"""What is known of a target once its configuration has been read."""

from dataclasses import dataclass

from simulator.counting.tensors import TensorInfo
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec

__all__ = ["Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model somebody wants to train, or at least to count."""

    name: str
    model_type: str
    """Family, by the name of Hugging Face configurations."""
    model: ModelSpec | None
    """Null for families that are only counted, and where a key that training needs is missing."""
    tensors: tuple[TensorInfo, ...]
    """Every trainable tensor; the basis of the count for all families."""
    is_trainable: bool
    """Whether the simulator can build and train a proxy of it."""
    why_not: str
    """One sentence; empty where it is trainable."""
    warnings: tuple[str, ...]
    """Defaults taken and parts the simulator leaves out."""
    init_std_source: str
    """Where ``model.init_std`` comes from."""

    def trainable_model(self) -> ModelSpec:
        """Return the model.

        Raises
        ------
        SpecError
            If the target can only be counted; with the reason.
        """
        if self.model is None or not self.is_trainable:
            raise SpecError(
                f"target.{self.name}",
                "must be of a family and completeness that can be trained",
                self.model_type,
                self.why_not,
            )
        return self.model
