"""The market's acts: every write to its rows goes through one of these modules."""
