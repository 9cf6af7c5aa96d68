"""From a chosen configuration to the full run of the target."""
