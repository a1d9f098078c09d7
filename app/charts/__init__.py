"""Charts as plain dicts for Plotly, each with its data as a table. Pure; imports no plotting library."""

from __future__ import annotations
