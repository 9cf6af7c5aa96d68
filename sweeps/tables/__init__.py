"""The tables of ``SWEEP.toml``: what a user may write, and what holds where nothing is written.

Every table is a frozen dataclass; the field's docstring is its reference entry. A value of
``None`` means that the key was left out, and the docstring names the rule that then applies;
``sweeps.resolve`` applies it and the plan prints what it gave.
"""
