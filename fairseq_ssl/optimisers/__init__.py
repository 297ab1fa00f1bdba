"""What --optimizer selects."""
