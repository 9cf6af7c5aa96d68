"""The conductor: plans and runs a study, and owns the ``sweep`` command."""
