"""Everything between one call and one HTTP exchange."""
