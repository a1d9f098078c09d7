"""Reads other tools' files and writes what they hold as bundles."""
