"""Transfer, laws, selection and their uncertainty; never imports torch."""
