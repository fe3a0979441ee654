"""Laissez: a market for accelerators. This package imports nothing, so that the SDK stays light."""
