"""Published model configurations, read strictly and turned into specifications."""
