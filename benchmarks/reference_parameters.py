"""An extension of griffe: types and defaults of the API's reference are those of the signature."""

from __future__ import annotations

from typing import Any

from griffe import DocstringSectionParameters, Extension, Module, Object


class OfTheSignature(Extension):
    """Gives each parameter its own default, and its own type where the docstring states none.

    Of several that a docstring describes together, griffe gives all what the first one has, and of
    choices it takes the first one for the default.
    """

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Correct what the docstrings of a package say of parameters."""
        correct(pkg)


def correct(documented: Object) -> None:
    """Correct the parameters of everything within a module or class."""
    for member in documented.members.values():
        if member.is_alias:
            continue
        correct(member)
        known = {item.name: item for item in getattr(member, "parameters", ())}
        sections = member.docstring.parsed if known and member.docstring else ()
        for section in sections:
            if isinstance(section, DocstringSectionParameters):
                of_first = [known[it.name].annotation for it in section.value if it.name in known]
                for item in section.value:
                    if (own := known.get(item.name.lstrip("*"))) is not None:
                        item.value = own.default
                        if any(item.annotation is given for given in of_first):
                            item.annotation = own.annotation
