"""Exact parameters, FLOPs and bytes of a model, computed without building it."""
