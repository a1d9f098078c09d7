"""What routes ask for by naming its type."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, HTTPException, Request

from app.growable import Growing
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


def _growing(request: Request) -> Growing:
    growing: Growing | None = request.app.state.growing
    if growing is None:
        raise HTTPException(
            HTTPStatus.FORBIDDEN, "This server starts no runtime; start it with: flipscope serve --grow STUDY.toml"
        )
    return growing


SettingsDep = Annotated[Settings, Depends(_settings)]
LibraryDep = Annotated[Library, Depends(_library)]
RendererDep = Annotated[Renderer, Depends(_renderer)]
GrowingDep = Annotated[Growing, Depends(_growing)]
