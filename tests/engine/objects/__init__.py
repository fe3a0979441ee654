"""The first engine, on values instead of arrays: slow, plain, and what the engine on arrays is measured against.

It was the product's own until the book became arrays, so its rules are those of the paper's numbers; nothing but tests
uses it.
"""
