"""Pages of the market and of jobs: `pages` answers requests, `lines` and `timeline` feed its templates."""
