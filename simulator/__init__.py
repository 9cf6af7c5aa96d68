"""Faithful reduced-width proxies of a target language model, and their training."""
