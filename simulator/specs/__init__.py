"""Specifications: frozen data that describes models, data and runs completely."""
