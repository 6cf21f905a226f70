"""Measurements a user can repeat: loads, the ways to serve them, and reports."""
