"""What a sweep would ask, cost and take, before it is run."""
