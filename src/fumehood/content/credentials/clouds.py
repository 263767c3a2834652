"""Tokens of clouds, monitoring and storage. Pure.

Sources: the token formats that each issuer documents; the second column of each row says whose documentation.
"""

from typing import Final

from fumehood.content.credentials.build import BASE62, HEX, LEFT, LEFT_ANY, RIGHT, UUID, WORD, rule, token
from fumehood.content.credentials.checks import hexadecimal_tail_fits, is_mixed, is_no_example, is_unpublished
from fumehood.content.credentials.model import Rule

_BETWEEN = r"[\w .-]{0,24}[\"']?\s{0,3}(?::=|=>|[:=>,])\s{0,3}[\"']?"

CLOUDS: Final[tuple[Rule, ...]] = (
    # --- Amazon
    rule(
        "aws-access-key",
        "AWS IAM, unique identifier prefixes",
        "akia asia abia acca a3t",
        LEFT + r"A(?:(?:KIA|SIA|BIA|CCA)[A-Z2-7]|3T[A-Z0-9][A-Z0-9])[A-Z0-9]{15}" + RIGHT,
        accepts=is_no_example,
    ),
    rule(
        "aws-secret-key",
        "AWS IAM, access keys",
        "aws secret",
        r"(?i:(?:aws[\w .-]{0,30})?secret[\w .-]{0,20})"
        r"[\"']?\s{0,3}(?::=|=>|[:=>,]|\s)\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        accepts=is_no_example,
    ),
    token(
        "aws-bedrock-key",
        "Amazon Bedrock, API keys",
        "ABSKQmVkcm9ja0FQSUtleS bedrock-api-key-",
        r"[A-Za-z0-9+/=]{40,2000}",
    ),
    token("aws-appsync-key", "AWS AppSync, API keys", "da2-", r"[a-z0-9]{26}"),
    token("aws-mws-token", "Amazon MWS", "amzn.mws.", UUID),
    token("aws-lwa-secret", "Login with Amazon", "amzn1.oa2-cs.v1.", rf"{HEX}{{64}}"),
    # --- Google
    token("gcp-api-key", "Google Cloud, API keys", "AIza", rf"{WORD}{{35}}", accepts=is_unpublished),
    rule(
        "gcp-oauth",
        "Google, OAuth 2.0",
        "ya29. gocspx- 1//0",
        r"(?:ya29\.[A-Za-z0-9_-]{20,2048}|GOCSPX-[A-Za-z0-9_-]{28}|(?<![\w/])1//0[A-Za-z0-9_-]{40,200})",
        accepts=is_no_example,
    ),
    token(
        "firebase-server-key",
        "Firebase Cloud Messaging, legacy server keys",
        "AAAA",
        r"[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{120,160}",
    ),
    # --- Microsoft
    rule(
        "azure-client-secret",
        "Microsoft Entra, application secrets",
        "q~",
        LEFT_ANY + r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
        behind=(4,),
        accepts=is_no_example,
    ),
    rule(
        "azure-client-secret-old",
        "Microsoft Entra, application secrets of 2020",
        "q~",
        LEFT_ANY + r"[A-Za-z0-9_~.]{1,3}[A-Za-z0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])",
        behind=(2, 3, 4),
        accepts=is_mixed,
    ),
    rule(
        "azure-storage-key",
        "Azure Storage, connection strings",
        "accountkey sharedaccesskey accesskey=",
        r"(?i:accountkey|sharedaccesskey|accesskey)\s{0,3}[=:]\s{0,3}[\"']?([A-Za-z0-9+/]{43,86}={1,2})",
        accepts=is_no_example,
    ),
    rule(
        "azure-devops-token",
        "Azure DevOps, personal access tokens",
        "azdo",
        LEFT + r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}" + RIGHT,
        behind=(76,),
        accepts=is_no_example,
    ),
    rule(
        "azure-identifiable-key",
        "Microsoft, common annotated security keys",
        "jqqj99",
        LEFT + r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{22}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9]{4})",
        behind=(52,),
        accepts=is_no_example,
    ),
    rule(
        "azure-sas",
        "Azure Storage, shared access signatures",
        "sig=",
        r"(?<=[?&;])sig=([A-Za-z0-9%+/]{30,120}(?:%3[dD]|=){0,2})",
        accepts=is_mixed,
    ),
    rule(
        "teams-webhook",
        "Microsoft Teams, incoming webhooks",
        "outlook.office.com/webhook/ .webhook.office.com/webhookb2/",
        rf"(?:outlook\.office\.com/webhook/|\.webhook\.office\.com/webhookb2/)({UUID}@{UUID}/IncomingWebhook/{BASE62}{{32}}/{UUID})",
    ),
    # --- other clouds
    token("digitalocean-token", "DigitalOcean, API tokens", "dop_v1_ doo_v1_ dor_v1_", rf"{HEX}{{64}}"),
    token("cloudflare-origin-key", "Cloudflare, Origin CA keys", "v1.0-", rf"{HEX}{{24}}-{HEX}{{146}}"),
    token("alibaba-key", "Alibaba Cloud, AccessKey", "LTAI", r"[A-Za-z0-9]{17,24}", accepts=is_mixed),
    token("tencent-key", "Tencent Cloud, API keys", "AKID", r"[A-Za-z0-9]{32}", accepts=is_mixed),
    token("scaleway-key", "Scaleway, API keys", "SCW", r"[A-Z0-9]{17}", accepts=is_mixed),
    token("yandex-key", "Yandex Cloud, API keys", "AQVN", rf"{WORD}{{35,38}}"),
    token("yandex-token", "Yandex Cloud, IAM tokens", "t1.", rf"{WORD}{{20,400}}={{0,2}}\.{WORD}{{86}}={{0,2}}"),
    token("akamai-token", "Akamai, EdgeGrid credentials", "akab-", r"[a-z0-9]{16}-[a-z0-9]{16}"),
    token(
        "dynatrace-token",
        "Dynatrace, access tokens",
        "dt0c01. dt0s01. dt0s02. dt0s04. dt0s06. dt0s08. dt0s16.",
        r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}",
    ),
    # --- monitoring
    rule(
        "grafana-service-account",
        "Grafana, service account tokens",
        "glsa_",
        LEFT + r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}" + RIGHT,
        accepts=is_no_example,
        verified=hexadecimal_tail_fits,
    ),
    token("grafana-cloud-token", "Grafana Cloud, access policies", "glc_", r"[A-Za-z0-9+/]{32,400}={0,3}"),
    rule("grafana-key", "Grafana, API keys", "eyjrijoi", LEFT + r"eyJrIjoi[A-Za-z0-9]{40,400}={0,3}"),
    token(
        "newrelic-key", "New Relic, API keys", "NRAK- NRAA- NRRA- NRII- NRIQ- NRJS- NRSP- NRBR-", rf"{WORD}{{19,48}}"
    ),
    rule(
        "newrelic-license",
        "New Relic, license keys",
        "nral",
        LEFT + r"[0-9a-f]{36}(?:FF)?NRAL" + RIGHT,
        behind=(36, 38),
        accepts=is_no_example,
    ),
    token("newrelic-pixie-key", "New Relic, Pixie", "px-dep- px-api-", UUID),
    token("sentry-token", "Sentry, auth tokens", "sntrys_eyJ", r"[A-Za-z0-9=_+/]{60,400}"),
    token("sentry-user-token", "Sentry, auth tokens", "sntryu_ sntrya_ sntryi_", rf"{HEX}{{64}}"),
    token("honeycomb-key", "Honeycomb, API keys", "hcaik_ hcalk_ hcbik_ hcblk_ hcxik_ hcxlk_ hcamk_", r"[a-z0-9]{58}"),
    token("databricks-token", "Databricks, personal access tokens", "dapi dose dkea", rf"{HEX}{{32}}(?:-[0-9])?"),
    token("cockroach-key", "CockroachDB Cloud", "CCDB1_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    token("confluent-key", "Confluent Cloud, API secrets", "cflt", r"[A-Za-z0-9+/]{60}"),
    token("clickhouse-key", "ClickHouse Cloud, API secrets", "4b1d", r"[A-Za-z0-9]{38}"),
    token("posthog-key", "PostHog, personal API keys", "phx_ phs_", r"[A-Za-z0-9]{40,64}"),
    token("ubidots-token", "Ubidots", "BBFF- BBUS-", r"[A-Za-z0-9]{30,34}"),
    token("adafruit-key", "Adafruit IO", "aio_", r"[A-Za-z0-9]{28}"),
    token("definednet-key", "Defined Networking", "dnkey-", r"[a-z0-9=_-]{26}-[a-z0-9=_-]{52}"),
    rule(
        "maxmind-license",
        "MaxMind, license keys",
        "_mmk",
        LEFT + r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + RIGHT,
        behind=(36,),
        accepts=is_no_example,
    ),
    token("jumpcloud-key", "JumpCloud", "jca_", r"[A-Za-z0-9]{36}"),
    rule("okta-token", "Okta, API tokens", "ssws±", r"(?i:ssws) {1,3}([A-Za-z0-9_-]{30,60})", accepts=is_no_example),
    rule(
        "okta-key",
        "Okta, API tokens",
        "okta",
        rf"(?i:(?<![a-z])okta){_BETWEEN}(00[A-Za-z0-9_-]{{40}})(?![A-Za-z0-9_-])",
        accepts=is_no_example,
    ),
    rule(
        "sumologic-key",
        "Sumo Logic, access keys",
        "sumo",
        rf"(?i:sumo){_BETWEEN}(su[A-Za-z0-9]{{12}}|[A-Za-z0-9]{{64}}){RIGHT}",
        accepts=is_mixed,
    ),
    rule(
        "airtable-token",
        "Airtable, personal access tokens",
        "airtable",
        rf"(?i:airtable)[^\n]{{0,60}}?(?<![\w-])(pat[A-Za-z0-9]{{14}}\.{HEX}{{64}}|key[A-Za-z0-9]{{14}}){RIGHT}",
        accepts=is_no_example,
    ),
)
