"""Pages of the market and of jobs.

Views answer requests (`market`, `jobs`, `acts`, `bids`, `job_form`); beside them stand pure functions from rows to what
their templates show: words (`reasons`, `facts`, `telling`), figures (`lines`, `paid`, `decisions`), drawings (`life`,
`timeline`, `progress`).
"""
