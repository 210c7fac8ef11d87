"""`policy explain`: what policy would say of one call, rule by rule. Nothing is recorded, and no ledger is opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...registry.policy import Decision
from ...visible import masked, visible
from . import render
from .answer import View, part, parts
from .arguments import parse_json
from .doors import with_tools
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import Tools
from .screen import Screen
from .tools import contract_of

if TYPE_CHECKING:
    from ...canonical import JsonObject, JsonValue
    from ...registry.contract import Contract
    from ...registry.policy_explain import Explanation
    from ...registry.principal import Principal


@dataclass(frozen=True, slots=True)
class Asker:
    """Who would ask; what is not given is the configuration's own."""

    subject: str | None = None
    tenant: str | None = None
    scopes: tuple[str, ...] = ()

    def beside(self, local: Principal) -> Principal:
        """The principal that these options describe."""
        given = {"subject": self.subject, "tenant": self.tenant, "scopes": frozenset(self.scopes) or None}
        return replace(local, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]  # mypy sees one type for all fields


def explain(invocation: Invocation, name: str, arguments: str | None, asker: Asker) -> int:
    """Explain; done whatever the verdict is."""
    given = None if arguments is None else parse_json(arguments.encode(), "the arguments")

    def use(app: Tools) -> dict[str, Any]:
        from ...registry.policy_explain import explain as explained  # noqa: PLC0415 (only this command needs it)

        contract, principal = contract_of(app, name), asker.beside(app.local)
        effective = None if arguments is None else _effective(contract, given)
        return _wire(contract, principal, effective, explained(app.policy, contract, effective, principal))

    answer = with_tools(invocation, use)
    Screen.of(invocation).answer(answer, _shown(answer))
    return Exit.DONE


def _effective(contract: Contract, given: JsonValue) -> JsonObject:
    """What policy would see: the arguments as validated, with their defaults.

    Raises:
        CommandError: they do not fit the tool's schema; such a call is refused before policy is asked.
    """
    from ...registry.arguments import InvalidArgumentsError, effective  # noqa: PLC0415 (only where some are given)

    try:
        return effective(contract.schemas.input, given, conceal=contract.gate.sensitive).value
    except InvalidArgumentsError as error:
        raise CommandError(Exit.NO, "invalid_arguments", f"refused before policy is asked: {error}") from error


def _wire(
    contract: Contract, principal: Principal, arguments: JsonObject | None, explained: Explanation
) -> dict[str, Any]:
    decision = explained.decision
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Decision))
    return {
        "tool": contract.name,
        "version": contract.version,
        "effect": contract.gate.effect,
        "principal": {
            "tenant": principal.tenant,
            "subject": principal.subject,
            "scopes": sorted(principal.scopes),
        },
        "arguments": None if arguments is None else masked(arguments, contract.gate.sensitive),
        **(asdict(decision) if decision else unknown),
        "standing": explained.standing,
        "missing_scopes": list(explained.missing_scopes),
        "contract": {"approval": explained.contract_asks},
        "default": asdict(explained.default),
        "rules": [{"covers": rule.covers, **asdict(rule)} for rule in explained.rules],
    }


def _shown(answer: View) -> RenderableType:
    default = part(answer, "default")
    taken = default.get("lowered_by")
    pairs = [
        ("tool", f"{answer['tool']} {answer['version']}, effect {answer['effect']}"),
        ("asked by", "{subject} of tenant {tenant}, scopes {scopes}".format_map(_spoken(part(answer, "principal")))),
        ("verdict", answer.get("verdict")),
        ("before arguments", answer.get("standing")),
        ("needs", _stated(answer.get("assurance"))),
        ("approvers", ", ".join(answer.get("approvers") or ()) or None),
        ("decided by", answer.get("rule_id")),
        ("reason", answer.get("reason")),
        ("missing scopes", ", ".join(answer["missing_scopes"]) or None),
        ("contract asks", _stated(part(answer, "contract").get("approval"))),
        ("default", f"{default['verdict']}, taken away by the rule {taken}" if taken else default["verdict"]),
    ]
    told: list[RenderableType] = [render.facts(pairs), Text(""), _rules(parts(answer, "rules"))]
    if answer.get("verdict") is None:
        told.append(Text("\nGive arguments to see what each condition makes of them.", style="dim"))
    return Group(*told)


def _spoken(principal: View) -> dict[str, object]:
    return {**principal, "scopes": ", ".join(principal["scopes"]) or "none"}


def _stated(assurance: object) -> object:
    return None if assurance == "none" else assurance


def _rules(rules: Any) -> RenderableType:  # noqa: ANN401 (the list of the answer)
    table = Table(box=None, pad_edge=False)
    for heading in ("rule", "says", "matches", "because"):
        table.add_column(heading, overflow="fold")
    for rule in rules:
        table.add_row(
            Text(visible(rule["id"])), render.word(rule["verdict"]), _match_word(rule), Text(visible(_because(rule)))
        )
    return table if table.row_count else Text("There are no rules; the contract and the default decide.")


def _match_word(rule: View) -> Text:
    word, style = {True: ("yes", "bold"), False: ("no", "dim"), None: ("depends", "yellow")}[rule["matches"]]
    return Text(word, style=style)


def _because(rule: View) -> str:
    if not rule["covers"]:
        return "; ".join(f"{one['field']} is {one['got']}, not {one['expected']}" for one in rule["obstacles"])
    return "; ".join(map(_clause_text, rule["clauses"])) or "it covers this tool and has no condition"


def _clause_text(clause: View) -> str:
    place = clause["path"] or "the arguments"
    if clause["counts"] is None:
        return f"if {place} {clause['expected']}"
    if clause["answer"] is None:
        how = "which counts as a match" if clause["counts"] else "which an allow rule does not take"
        return f"{place} {clause['expected']}: cannot be compared with {clause['got']}, {how}"
    return f"{place} {clause['expected']}: {'holds' if clause['answer'] else 'fails'}, got {clause['got']}"
