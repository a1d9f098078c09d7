"""Tests of the engines; those marked `engine` run real ones on tiny random models."""
