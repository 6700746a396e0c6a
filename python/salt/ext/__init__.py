"""Room for the bundled six."""
