"""Markets of a size that no test lives through row by row: filled at once, then driven by the real services.

`seeding` fills a cluster, `changing` changes bids as tenants would.
"""
