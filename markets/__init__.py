"""The market: bids, clearings, awards, notices, quotes and bills. It decides; workers execute, tenants pay."""
