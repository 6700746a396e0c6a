"""A small package that stands in for salt in user-written modules."""
