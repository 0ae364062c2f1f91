"""Settings, trust, callers and budgets, and the actor that they add up to."""
