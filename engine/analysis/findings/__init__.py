"""What an analysis found, as plain values with their columns and charts."""
