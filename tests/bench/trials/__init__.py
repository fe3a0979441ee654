"""Modules of measurements that measure nothing, to try the harness out."""
