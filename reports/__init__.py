"""Pages and tables that show a study."""
