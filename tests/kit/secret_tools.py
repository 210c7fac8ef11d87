"""Tools of the kit that take secrets: by name, by mark, deep inside; and that let them slip in every way there is."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from counterfoil import Outcome, tool


class Login(BaseModel):
    """A login with a short name for a long thing."""

    user: str
    pin: int


@tool(effect="read", open_world=False)
async def secret_typed(
    pin: int = 0, logins: list[Login] | None = None, note: int = 0, credentials: dict[str, int] | None = None
) -> str:
    """Take typed secrets."""
    return f"{pin} {logins} {note} {credentials}"


@tool(effect="write", sensitive=["/notes/*/text"])
async def secret_slip(how: str, password: str, notes: list[dict[str, str]], login: dict[str, Any]) -> Outcome[str]:
    """Let every secret slip."""
    said = f"failed for {password} / {notes[0]['text']} / {login['api_key'][0]}"
    if how == "raise":
        raise ValueError(said)
    if how == "repr":
        raise ValueError(repr((password, notes, login)))
    if how == "partial":
        return Outcome.partial(said, said)
    if how == "ambiguous":
        return Outcome.ambiguous(said)
    if how == "evidence":
        return Outcome.success(said, {"external_reference": said})
    return Outcome(Outcome.permanent("x").kind, message=said, details={"said": [said], said: 1})


@tool(effect="read", open_world=False)
async def secret_echo(password: str) -> Annotated[str, Field(max_length=20)]:
    """Give it back."""
    return password


@tool(effect="write", resources=["acct:{token}", "shared:box:{login}", "order:{order}"])
async def secret_held(token: str, login: dict[str, str], order: str) -> str:
    """Hold a secret's key."""
    return token


def _keys(password: str, order: str) -> list[str]:
    return [f"shared:vault:{password}", f"order:{order}"]


@tool(effect="write", resources=_keys)
async def secret_keyed(password: str, order: str) -> str:
    """Hold what a function makes of a secret."""
    return password
