"""Narrow proxies of a target: ``shrink``, its reasons, and the nearest ones that fit a memory."""

from simulator.proxy.dimensions import DimensionChange
from simulator.proxy.nearest import Alternative, nearest_fitting
from simulator.proxy.shrink import ProxyPlan, shrink

__all__ = ["Alternative", "DimensionChange", "ProxyPlan", "nearest_fitting", "shrink"]
