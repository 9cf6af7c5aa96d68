"""Search libraries behind the two callables of the study loop."""
