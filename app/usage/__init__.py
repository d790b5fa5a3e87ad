"""Usage and cost: what replies cost, and the totals by day, key and model."""
