"""Tokens that say by themselves whose they are. Pure."""

from typing import Final

from fumehood.content.credentials.build import LEFT, LEFT_WORD, rule
from fumehood.content.credentials.checks import has_digit, is_jwt, tail_fits
from fumehood.content.credentials.model import Rule

PROVIDERS: Final[tuple[Rule, ...]] = (
    rule(
        "github-token",
        "GitHub: token formats",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        r"gh[pousr]_[A-Za-z0-9]{20,255}",
        verified=tail_fits,
    ),
    rule("github-pat", "GitHub: token formats", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    rule("npm-token", "npm: token formats", "npm_", LEFT + r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", verified=tail_fits),
    rule("gitlab-token", "GitLab", "glpat-", r"glpat-[A-Za-z0-9_-]{20,255}"),
    rule("pypi-token", "PyPI", "pypi-ageichlwas5vcmc", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000}"),
    rule(
        "aws-access-key",
        "AWS IAM: unique identifier prefixes",
        "akia asia",
        LEFT + r"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    rule("gcp-api-key", "Google", "aiza", LEFT_WORD + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    rule("gcp-oauth", "Google", "ya29. gocspx-", r"(?:ya29\.[A-Za-z0-9_-]{20,2048}|GOCSPX-[A-Za-z0-9_-]{28})"),
    rule("slack-token", "Slack", "xox xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}", accepts=has_digit),
    rule(
        "slack-webhook",
        "Slack",
        "hooks.slack",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,255})",
    ),
    rule(
        "stripe-key",
        "Stripe",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        LEFT + r"(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{16,255}",
    ),
    rule("anthropic-key", "Anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,255}"),
    rule("openai-key", "OpenAI", "sk-", LEFT_WORD + r"sk-(?!ant-)[A-Za-z0-9_-]{20,255}", accepts=has_digit),
    rule("huggingface-token", "Hugging Face", "hf_", LEFT + r"hf_[A-Za-z0-9]{30,100}"),
    rule("sendgrid-key", "SendGrid", "sg.", LEFT_WORD + r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    rule(
        "jwt",
        "RFC 7519",
        "eyj",
        LEFT_WORD + r"eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{4,16384}+\.[A-Za-z0-9_-]{0,2048}",
        verified=is_jwt,
    ),
)
