"""Helpers that modules import by their file, as in salt.utils.path."""
