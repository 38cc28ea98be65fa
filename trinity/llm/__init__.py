"""How models are asked: pool, client, store, retries and transports."""
