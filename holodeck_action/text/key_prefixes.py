"""The prefixes by which providers mark their keys."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.text.lazy_patterns import lazy_pattern


class KeyPrefix(Struct, frozen=True):
    """How the keys of a provider begin, and what follows.

    Attributes:
        provider: name of the provider.
        pattern: pattern of the prefix.
        signs: texts of which each prefix contains one.
        rest: pattern of the characters after the prefix, of bounded length.
        example: an invented key of the provider.
    """

    provider: str
    pattern: str
    signs: tuple[str, ...]
    rest: str
    example: str


_LONG = r"[\w-]{16,300}"
_LETTERS = r"[A-Za-z0-9]{16,300}"
_HEX = r"[0-9a-f]{32}(?![0-9a-f])"
_TAIL = "Wd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0"

KEY_PREFIXES = (
    KeyPrefix("Anthropic", r"sk-ant-(?:api|admin|oat|sid)[0-9]{2}-", ("sk-",), _LONG, f"sk-ant-api03-{_TAIL}"),
    KeyPrefix("OpenAI", r"sk-(?:proj|svcacct|admin)-", ("sk-",), _LONG, f"sk-proj-{_TAIL}"),
    KeyPrefix("OpenRouter", r"sk-or-v1-", ("sk-",), _LONG, f"sk-or-v1-{_TAIL}"),
    KeyPrefix("Langfuse", r"[sp]k-lf-", ("k-lf-",), _LONG, f"sk-lf-{_TAIL}"),
    KeyPrefix("OpenAI and others", r"sk-", ("sk-",), _LONG, f"sk-{_TAIL}"),
    KeyPrefix("GitHub", r"github_pat_", ("github_pat_",), _LONG, f"github_pat_{_TAIL}"),
    KeyPrefix("GitHub", r"gh[opsur]_", ("gho_", "ghp_", "ghs_", "ghu_", "ghr_"), _LETTERS, f"ghp_{_TAIL}"),
    KeyPrefix(
        "GitLab",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|soat)-",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-"),
        _LONG,
        f"glpat-{_TAIL}",
    ),
    KeyPrefix(
        "AWS", r"A(?:KI|SI|BI)A", ("AKIA", "ASIA", "ABIA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIAW4JX9TB2KQ7RV5MF"
    ),
    KeyPrefix("Google", r"AIza", ("AIza",), r"[\w-]{30,60}", "AIzaSyDWd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0"),
    KeyPrefix("Google", r"ya29\.", ("ya29.",), _LONG, f"ya29.{_TAIL}"),
    KeyPrefix("Google", r"GOCSPX-", ("GOCSPX-",), _LONG, f"GOCSPX-{_TAIL}"),
    KeyPrefix("Slack", r"xox[a-z]-", ("xox",), r"[\w-]{10,300}", f"xoxb-4711-{_TAIL}"),
    KeyPrefix("Slack", r"xapp-", ("xapp-",), _LONG, f"xapp-1-A4711-{_TAIL}"),
    KeyPrefix(
        "Slack",
        r"(?<=hooks\.slack\.com/services/)",
        ("hooks.slack.com/services/",),
        r"[\w/]{16,300}",
        f"T4711/B7/{_TAIL}",
    ),
    KeyPrefix("Stripe", r"[sr]k_(?:live|test)_", ("k_live_", "k_test_"), r"[A-Za-z0-9]{10,300}", f"sk_live_{_TAIL}"),
    KeyPrefix("Stripe", r"whsec_", ("whsec_",), _LETTERS, f"whsec_{_TAIL}"),
    KeyPrefix("Hugging Face", r"hf_", ("hf_",), _LETTERS, f"hf_{_TAIL}"),
    KeyPrefix("npm", r"npm_", ("npm_",), _LETTERS, f"npm_{_TAIL}"),
    KeyPrefix("PyPI", r"pypi-(?:AgEIcHlwaS5vcmc)?", ("pypi-",), _LONG, f"pypi-AgEIcHlwaS5vcmc{_TAIL}"),
    KeyPrefix("Docker", r"dckr_(?:pat|oat)_", ("dckr_",), _LONG, f"dckr_pat_{_TAIL}"),
    KeyPrefix("SendGrid", r"SG\.", ("SG.",), r"[\w-]{16,64}\.[\w-]{16,100}", f"SG.{_TAIL}.{_TAIL}"),
    KeyPrefix("Twilio", r"SK", ("SK",), _HEX, "SK5e1c9a7b3d0f2468ace1357bdf904a6c"),
    KeyPrefix("Groq", r"gsk_", ("gsk_",), _LETTERS, f"gsk_{_TAIL}"),
    KeyPrefix("xAI", r"xai-", ("xai-",), _LONG, f"xai-{_TAIL}"),
    KeyPrefix("Perplexity", r"pplx-", ("pplx-",), _LONG, f"pplx-{_TAIL}"),
    KeyPrefix("Replicate", r"r8_", ("r8_",), _LETTERS, f"r8_{_TAIL}"),
    KeyPrefix("NVIDIA", r"nvapi-", ("nvapi-",), _LONG, f"nvapi-{_TAIL}"),
    KeyPrefix("Tavily", r"tvly-", ("tvly-",), _LONG, f"tvly-{_TAIL}"),
    KeyPrefix("LangSmith", r"lsv2_(?:pt|sk)_", ("lsv2_",), _LONG, f"lsv2_pt_{_TAIL}"),
    KeyPrefix("Databricks", r"dapi", ("dapi",), _HEX, "dapi5e1c9a7b3d0f2468ace1357bdf904a6c"),
    KeyPrefix("DigitalOcean", r"do[opr]_v1_", ("_v1_",), _LETTERS, f"dop_v1_{_TAIL}"),
    KeyPrefix("Shopify", r"shp(?:at|ca|pa|ss)_", ("shpat_", "shpca_", "shppa_", "shpss_"), _LETTERS, f"shpat_{_TAIL}"),
    KeyPrefix("HashiCorp Vault", r"hv[sbr]\.", ("hvs.", "hvb.", "hvr."), _LONG, f"hvs.{_TAIL}"),
    KeyPrefix("Sentry", r"sntry[su]_", ("sntry",), _LONG, f"sntrys_{_TAIL}"),
    KeyPrefix("Grafana", r"glsa_", ("glsa_",), _LONG, f"glsa_{_TAIL}"),
    KeyPrefix("Notion", r"ntn_", ("ntn_",), _LETTERS, f"ntn_{_TAIL}"),
    KeyPrefix("Linear", r"lin_api_", ("lin_api_",), _LETTERS, f"lin_api_{_TAIL}"),
)
"""The prefixes; of two prefixes with the same beginning, the longer one comes first."""

_LEAST_SHARED = 5
"""Minimum letters and digits of a prefix that makes a part of a key unfit to identify it."""
_PREFIX = lazy_pattern("|".join(f"(?:{each.pattern})" for each in KEY_PREFIXES))


def prefix_of(value: str) -> str:
    """Return the long prefix of a provider with which a key begins, such as `sk-ant-api03-`; empty if it has none."""
    found = _PREFIX.match(value)
    return found[0] if found is not None and sum(map(str.isalnum, found[0])) >= _LEAST_SHARED else ""
