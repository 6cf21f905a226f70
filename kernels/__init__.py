"""Attention over paged KV and the other operations of a decoder; knows nothing of requests or models."""
