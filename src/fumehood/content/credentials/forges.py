"""Tokens of code hosting, package registries, builds and deployments. Pure.

Sources: the token formats that each issuer documents; the fourth column of each row is the format, the second whose
documentation it is from.
"""

from typing import Final

from fumehood.content.credentials.build import BASE62, HEX, LEFT, RIGHT, UUID, WORD, rule, token
from fumehood.content.credentials.checks import is_no_example, is_unmasked, tail_fits
from fumehood.content.credentials.model import Rule

FORGES: Final[tuple[Rule, ...]] = (
    # --- code hosting
    rule(
        "github-token",
        "GitHub, token formats",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        r"gh[pousr]_[A-Za-z0-9]{20,255}",
        accepts=is_unmasked,
        verified=tail_fits,
    ),
    rule("github-pat", "GitHub, token formats", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}", accepts=is_unmasked),
    rule(
        "gitlab-token",
        "GitLab, token overview",
        "glpat-",
        r"glpat-[A-Za-z0-9_-]{20,255}(?:\.[A-Za-z0-9.]{2,32})?",
        accepts=is_unmasked,
    ),
    rule(
        "gitlab-other-token",
        "GitLab, token overview (prefixes)",
        "gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- glffct- glwt- gr1348941",
        r"(?:gl(?:dt|rtr?|cbt|ptt|ft|soat|imt|agent|oas|ffct|wt)-|GR1348941)[A-Za-z0-9_-]{16,255}(?:\.[A-Za-z0-9.]{2,32})?",
        accepts=is_unmasked,
    ),
    token("atlassian-token", "Atlassian, API tokens", "ATATT3 ATCTT3", r"[A-Za-z0-9_=-]{60,400}"),
    token("bitbucket-app-password", "Bitbucket, app passwords", "ATBB", r"[A-Za-z0-9]{24,60}"),
    token("bitbucket-token", "Bitbucket Data Center, HTTP access tokens", "BBDC-", r"[A-Za-z0-9+/@_-]{40,50}"),
    token("sourcegraph-token", "Sourcegraph, access tokens", "sgp_", rf"(?:(?:{HEX}{{16}}|local)_)?{HEX}{{40}}"),
    token("sourcegraph-license", "Sourcegraph, tokens", "slk_ sgd_ sgw_ sgph_", rf"{HEX}{{40,64}}"),
    # --- package registries
    token(
        "npm-token",
        "npm, about access tokens (as GitHub's)",
        "npm_",
        r"[A-Za-z0-9]{36}",
        accepts=is_unmasked,
        verified=tail_fits,
    ),
    rule(
        "pypi-token",
        "PyPI, API tokens (a macaroon for its hosts)",
        "pypi-ageichlwas5vcmc pypi-agendgvzdc5wexbplm9yzw",
        r"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}",
    ),
    token("rubygems-key", "RubyGems, API keys", "rubygems_", rf"{HEX}{{48}}"),
    token("crates-token", "crates.io, API tokens", "cio", r"[A-Za-z0-9]{32}"),
    token("nuget-key", "NuGet, API keys", "oy2", r"[a-z0-9]{43}"),
    token("clojars-token", "Clojars, deploy tokens", "CLOJARS_", r"[a-f0-9]{60}"),
    token(
        "packagist-token",
        "Private Packagist, tokens",
        "packagist_ort_ packagist_out_ packagist_ack_ packagist_uut_",
        r"[a-f0-9]{40,80}",
    ),
    token("docker-token", "Docker Hub, access tokens", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{24,40}"),
    token("artifactory-key", "JFrog, API keys", "AKCp", r"[A-Za-z0-9]{65,73}"),
    token("artifactory-reference", "JFrog, reference tokens", "cmVmdGtu", r"[A-Za-z0-9]{56}"),
    token("jsr-token", "JSR", "jsrp_ jsrs_ jsrd_", r"[A-Za-z0-9_-]{32,64}"),
    # --- builds and quality
    token("circleci-token", "CircleCI, API tokens", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    token("buildkite-token", "Buildkite, token security", "bkua_ bkat_ bkct_ bkpt_ bkaj_", r"[A-Za-z0-9]{36,44}"),
    token("buildkite-agent-token", "Buildkite, agent tokens", "bkt_", r"[A-Za-z0-9_-]{40,60}"),
    token("sonar-token", "SonarQube, user tokens", "sqp_ squ_ sqa_ sqb_", rf"{HEX}{{40}}"),
    token("octopus-key", "Octopus Deploy, API keys", "API-", r"[A-Z0-9]{25,30}"),
    token("harness-token", "Harness, API keys", "pat. sat.", rf"[A-Za-z0-9_-]{{22}}\.{HEX}{{24}}\.[A-Za-z0-9]{{20}}"),
    token("launchdarkly-key", "LaunchDarkly, API access tokens", "api- sdk-", UUID),
    token("snyk-token", "Snyk, service accounts", "snyk_uat. snyk_sat.", r"[A-Za-z0-9_.-]{40,400}"),
    token("prefect-key", "Prefect Cloud, API keys", "pnu_ pnb_", r"[A-Za-z0-9]{36}"),
    token("pulumi-token", "Pulumi Cloud, access tokens", "pul-", rf"{HEX}{{40}}"),
    rule("infracost-key", "Infracost", "ico-", r"(?<![\w.])ico-[A-Za-z0-9]{32}" + RIGHT, accepts=is_no_example),
    token("readme-key", "ReadMe", "rdme_", r"[a-z0-9]{70}"),
    token("stackhawk-key", "StackHawk", "hawk.", r"[A-Za-z0-9_-]{20}\.[A-Za-z0-9_-]{20}"),
    token("endor-token", "Endor Labs", "endr+", r"[A-Za-z0-9-]{16}"),
    token("runpod-key", "RunPod", "rpa_", r"[A-Z0-9]{40,46}"),
    token("depot-token", "Depot", "depot_org_ depot_project_ depot_user_", r"[a-f0-9]{40,64}"),
    token(
        "doppler-token",
        "Doppler, token formats",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    token("vault-token", "HashiCorp Vault, tokens", "hvs. hvb. hvr.", rf"{WORD}{{24,300}}"),
    rule(
        "vault-old-token",
        "HashiCorp Vault, tokens before 1.10",
        "vault",
        r"(?i:vault)[\w .-]{0,30}[\"']?\s{0,3}[:= ]\s{0,3}[\"']?([sbr]\.[A-Za-z0-9][A-Za-z0-9_-]{23,160})",
        accepts=is_no_example,
    ),
    rule(
        "terraform-token",
        "HCP Terraform, API tokens",
        ".atlasv1.",
        LEFT + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,100}",
        behind=(14,),
        accepts=is_no_example,
    ),
    # --- hosting
    token("heroku-key", "Heroku, authorization tokens", "HRKU-", rf"(?:AA{WORD}{{58}}|{UUID})"),
    token("vercel-token", "Vercel, tokens", "vcp_ vci_ vca_ vcr_ vck_", r"[A-Za-z0-9]{24,60}"),
    token("netlify-token", "Netlify, personal access tokens", "nfp_ nfc_ nfo_ nfb_ nfu_", r"[A-Za-z0-9]{36}"),
    token("render-key", "Render, API keys", "rnd_", r"[A-Za-z0-9]{28,40}"),
    token("fly-token", "Fly.io, access tokens", "fo1_ fm1r_ fm1a_ fm2_", r"[A-Za-z0-9_+/=,-]{40,2000}"),
    token("deno-deploy-token", "Deno Deploy", "ddp_ ddo_ ddw_", r"[A-Za-z0-9]{36}"),
    token("supabase-token", "Supabase, API keys", "sbp_", r"[a-f0-9]{40}"),
    token("supabase-secret", "Supabase, API keys", "sb_secret_", r"[A-Za-z0-9_-]{31,40}"),
    token(
        "planetscale-token",
        "PlanetScale, service tokens",
        "pscale_tkn_ pscale_pw_ pscale_oauth_",
        r"[A-Za-z0-9_=.-]{32,64}",
    ),
    token("neon-key", "Neon, API keys", "napi_", r"[a-z0-9]{64}"),
    token("scalingo-token", "Scalingo", "tk-us-", rf"{WORD}{{48}}"),
    token("apify-token", "Apify", "apify_api_", r"[A-Za-z0-9]{36}"),
    token("e2b-key", "E2B", "e2b_", r"[a-f0-9]{40}"),
    token("figma-token", "Figma, personal access tokens", "figd_ figo_ figu_ figdr_ figor_", r"[A-Za-z0-9_-]{40,80}"),
    token(
        "tailscale-key",
        "Tailscale, key prefixes",
        "tskey-api- tskey-auth- tskey-client- tskey-scim- tskey-webhook-",
        rf"{BASE62}{{5,32}}(?:CNTRL)?-{BASE62}{{8,64}}",
    ),
    token("onepassword-token", "1Password, service accounts", "ops_eyJ", r"[A-Za-z0-9+/_-]{200,2000}={0,3}"),
    token(
        "onepassword-key",
        "1Password, Secret Key",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    rule(
        "age-key",
        "age, the file format",
        "age-secret-key-",
        r"AGE-SECRET-KEY-(?:PQ-)?1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7Lqpzry9x8gf2tvdw0s3jn54khce6mua7l]{20,2000}",
    ),
    rule("django-key", "Django, startproject", "django-insecure-", r"(django-insecure-[^\s\"'\\]{30,100})"),
    token("openshift-token", "OpenShift, OAuth tokens", "sha256~", rf"{WORD}{{43}}"),
    rule(
        "kubernetes-bootstrap-token",
        "Kubernetes, bootstrap tokens",
        "bootstrap-token",
        r"bootstrap-token[\"']?[ =:]{1,3}[\"']?([a-z0-9]{6}\.[a-z0-9]{16})" + RIGHT,
    ),
)
