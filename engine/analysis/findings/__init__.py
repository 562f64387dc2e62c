"""Results of an analysis, as plain values with their columns and charts."""
