"""From a model's name to a client that answers: router, client, retry, warm-up."""
