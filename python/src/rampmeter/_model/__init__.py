"""What the adapters of language models share: estimates, meters, transports."""
