"""Permits over NATS, with nats-py. One connection for each event loop; threads share a loop of theirs."""
