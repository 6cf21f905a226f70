"""Composition: command line, settings, server, HTTP API and model store."""
