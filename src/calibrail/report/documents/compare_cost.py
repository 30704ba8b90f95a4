"""What did the scores of a comparison cost?"""

from calibrail.report.blocks import Column, Json, Section, Table, Text, numbers
from calibrail.report.phrases import plain


def cost_section(comparison: Json, cost: Json) -> Section | None:
    """Return latency, passes, calls and price of each score, the cheapest first."""
    prices = {item["score"]: item for item in comparison["data"].get("calls") or ()}
    known = [item for item in cost["scores"] if item["seconds_per_1000"] is not None]
    if not known:
        return None
    rows = []
    for item in sorted(known, key=lambda item: item["seconds_per_1000"]):
        usage = (item.get("calls") or {}).get("usage") or {}
        dollars = prices.get(item["score"], {}).get("dollars_per_1000")
        rows.append(
            (
                plain(item["score"]),
                _time(item["seconds_per_1000"] / 1000.0),
                _time(item["seconds_per_1000"]),
                f"{item['forward_passes']:,}" if item["forward_passes"] else "",
                f"{usage['n_sent']:,} sent, {usage['n_cached']:,} known" if usage else "",
                "" if dollars is None else f"${dollars:.2f}",
                ", ".join(plain(name) for name in item["shared_with"]),
            )
        )
    heads = ("One answer", "1,000 answers", "Forward passes", "Calls", "Price of 1,000")
    columns = (
        Column("Score"),
        *numbers(*heads),
        Column("Shares passes with"),
    )
    title = "What the scores cost"
    return Section(
        title,
        (
            Table(title, columns, rows),
            Text(
                "Measured when these answers were scored, models that several scores share "
                "included; in cost.json.",
                "muted",
            ),
        ),
        where="page",
    )


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1e3 else f"{seconds:,.0f} s"
    return f"{seconds / 1e-6:.3g} \N{MICRO SIGN}s"
