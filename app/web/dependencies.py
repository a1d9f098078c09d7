"""What routes ask for by naming its type."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from app.library import Library
from app.settings import Settings
from app.web.rendering import Renderer

READ = ["GET", "HEAD"]
"""The methods of every page: whoever may get it may ask for its head alone."""


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _library(request: Request) -> Library:
    library: Library = request.app.state.library
    return library


def _renderer(request: Request) -> Renderer:
    renderer: Renderer = request.app.state.renderer
    return renderer


SettingsDep = Annotated[Settings, Depends(_settings)]
LibraryDep = Annotated[Library, Depends(_library)]
RendererDep = Annotated[Renderer, Depends(_renderer)]
