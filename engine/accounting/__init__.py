"""What was asked and what it costs: tokens, prices, budget, ledger, quarantine."""
