"""The analyst's tools: a table of three invented companies, and arithmetic on what is looked up."""

from __future__ import annotations

FIGURES: dict[str, dict[str, dict[int, float]]] = {
    "Kestrel Optics": {
        "revenue": {2021: 1842.6, 2022: 1987.3, 2023: 2104.8, 2024: 2318.4},
        "cost of sales": {2021: 1012.9, 2022: 1103.5, 2023: 1148.2, 2024: 1236.7},
        "operating income": {2021: 221.4, 2022: 236.8, 2023: 270.9, 2024: 319.2},
        "net income": {2021: 158.3, 2022: 171.6, 2023: 198.7, 2024: 226.8},
        "current assets": {2021: 702.5, 2022: 731.9, 2023: 768.4, 2024: 845.1},
        "current liabilities": {2021: 389.7, 2022: 402.3, 2023: 421.6, 2024: 464.3},
        "total assets": {2021: 2415.0, 2022: 2530.2, 2023: 2688.9, 2024: 2901.7},
        "dividend per share": {2021: 0.34, 2022: 0.36, 2023: 0.39, 2024: 0.42},
    },
    "Pellworth Foods": {
        "revenue": {2021: 5210.4, 2022: 5498.1, 2023: 5377.9, 2024: 5612.5},
        "cost of sales": {2021: 3874.2, 2022: 4150.6, 2023: 4021.3, 2024: 4133.0},
        "operating income": {2021: 412.7, 2022: 388.5, 2023: 361.9, 2024: 440.8},
        "net income": {2021: 287.1, 2022: 262.4, 2023: 240.6, 2024: 301.5},
        "current assets": {2021: 1320.8, 2022: 1355.0, 2023: 1301.7, 2024: 1378.2},
        "current liabilities": {2021: 1104.6, 2022: 1182.9, 2023: 1197.3, 2024: 1150.1},
        "total assets": {2021: 4120.3, 2022: 4231.8, 2023: 4208.8, 2024: 4317.6},
        "dividend per share": {2021: 1.10, 2022: 1.10, 2023: 0.95, 2024: 1.05},
    },
    "Aldermoor Rail": {
        "revenue": {2021: 918.2, 2022: 1043.7, 2023: 1176.5, 2024: 1201.9},
        "cost of sales": {2021: 701.8, 2022: 776.4, 2023: 861.0, 2024: 902.3},
        "operating income": {2021: -24.6, 2022: 38.1, 2023: 71.4, 2024: 66.9},
        "net income": {2021: -41.8, 2022: 12.7, 2023: 44.2, 2024: 40.3},
        "current assets": {2021: 241.3, 2022: 268.8, 2023: 301.2, 2024: 295.7},
        "current liabilities": {2021: 297.4, 2022: 288.1, 2023: 279.6, 2024: 283.5},
        "total assets": {2021: 3302.0, 2022: 3341.7, 2023: 3398.5, 2024: 3450.9},
        "dividend per share": {2021: 0.00, 2022: 0.00, 2023: 0.05, 2024: 0.06},
    },
}
"""Company → item → year → figure, in millions of dollars; dividends in dollars."""


def lookup(company: str, item: str, year: int) -> float:
    """Return one figure.

    Raises:
        LookupError: the table does not have it.
    """
    try:
        return FIGURES[company][item][year]
    except KeyError:
        raise LookupError(f"no {item} of {company} for {year}") from None


def subtract(a: float, b: float) -> float:
    """Return a − b."""
    return a - b


def divide(a: float, b: float) -> float:
    """Return a ÷ b."""
    return a / b


def percent_change(old: float, new: float) -> float:
    """Return the change from old to new in percent of old; a loss that shrinks is a rise."""
    return 100 * (new - old) / abs(old)
