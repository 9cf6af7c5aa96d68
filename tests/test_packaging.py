"""The five import packages belong to this distribution and to no other."""

from importlib import metadata

import pytest

PACKAGES = ("simulator", "scaling", "full_run", "reports", "sweeps")


@pytest.mark.parametrize("package", PACKAGES)
def test_package_comes_from_this_distribution_alone(package: str) -> None:
    """Another distribution (``sweeps`` of W&B, for one) may install the same top-level name."""
    assert set(metadata.packages_distributions()[package]) == {"eighthscale"}


def test_distribution_is_never_uploaded_by_accident() -> None:
    classifiers = metadata.metadata("eighthscale").get_all("Classifier") or []
    assert "Private :: Do Not Upload" in classifiers


def test_core_dependencies_stay_few() -> None:
    requires = metadata.requires("eighthscale") or []
    core = [line for line in requires if "extra ==" not in line]
    assert len(core) <= 13, core
