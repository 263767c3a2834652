"""Tokens of models, payment, messages and other services. Pure.

Sources: the token formats that each issuer documents; the second column of each row says whose documentation.
"""

from typing import Final

from fumehood.content.credentials.build import HEX, LEFT, LEFT_WORD, RIGHT, RIGHT_WORD, UUID, WORD, rule, token
from fumehood.content.credentials.checks import is_jwt, is_mixed, is_no_example, is_scrambled
from fumehood.content.credentials.model import Rule

SERVICES: Final[tuple[Rule, ...]] = (
    # --- models
    rule("anthropic-key", "Anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,255}", accepts=is_no_example),
    token("openrouter-key", "OpenRouter", "sk-or-v1-", rf"{HEX}{{64}}"),
    token("langfuse-key", "Langfuse", "sk-lf-", UUID),
    rule("openai-key", "OpenAI", "sk-", LEFT_WORD + r"sk-(?!ant-)[A-Za-z0-9_-]{20,255}", accepts=is_mixed),
    token(
        "huggingface-token",
        "Hugging Face, user access tokens",
        "hf_ api_org_",
        r"[A-Za-z0-9]{30,100}",
        accepts=is_scrambled,
    ),
    token("groq-key", "Groq", "gsk_", r"[A-Za-z0-9]{40,60}"),
    token("xai-key", "xAI", "xai-", r"[A-Za-z0-9]{80}"),
    token("perplexity-key", "Perplexity", "pplx-", r"[A-Za-z0-9]{40,60}"),
    token("replicate-token", "Replicate", "r8_", r"[A-Za-z0-9]{37}"),
    token("tavily-key", "Tavily", "tvly-", r"(?:(?:dev|prod)-)?[A-Za-z0-9_-]{30,60}"),
    token("firecrawl-key", "Firecrawl", "fc-", rf"{HEX}{{32}}"),
    token("langsmith-key", "LangSmith", "lsv2_pt_ lsv2_sk_ lsv2_sa_", rf"{HEX}{{32}}_{HEX}{{10}}"),
    token("llamacloud-key", "LlamaCloud", "llx-", r"[A-Za-z0-9]{48}"),
    token("pinecone-key", "Pinecone", "pcsk_", r"[A-Za-z0-9_]{60,80}"),
    token("nvidia-key", "NVIDIA", "nvapi-", rf"{WORD}{{60,70}}"),
    token("elevenlabs-key", "ElevenLabs", "sk_", rf"{HEX}{{48}}"),
    token("fireworks-key", "Fireworks", "fw_", r"[A-Za-z0-9]{24}", accepts=is_mixed),
    token("anyscale-key", "Anyscale", "esecret_", r"[A-Za-z0-9]{20,40}"),
    token("cerebras-key", "Cerebras", "csk-", r"[a-z0-9]{48}"),
    token("jina-key", "Jina", "jina_", r"[A-Za-z0-9_-]{50,70}"),
    token("wandb-key", "Weights & Biases", "wandb_v1_", r"[A-Za-z0-9_]{60,90}"),
    # --- payment
    token(
        "stripe-key",
        "Stripe, API keys",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_ sk_prod_ rk_prod_",
        r"[A-Za-z0-9+/=]{10,255}",
    ),
    rule(
        "square-token",
        "Square, access tokens",
        "sq0atp- sq0csp-",
        LEFT + r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,60}",
        accepts=is_no_example,
    ),
    token(
        "square-production-token",
        "Square, access tokens",
        "EAAA",
        r"[A-Za-z0-9][A-Za-z0-9+=_-]{58,62}",
        accepts=is_mixed,
    ),
    token("razorpay-key", "Razorpay", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{14,24}"),
    token("plaid-token", "Plaid", "access-sandbox- access-development- access-production-", UUID),
    rule(
        "braintree-token",
        "PayPal Braintree",
        "access_token$production$ access_token$sandbox$",
        r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}",
    ),
    token("flutterwave-key", "Flutterwave", "FLWSECK_TEST- FLWSECK-", r"[A-Za-z0-9]{12,40}(?:-X)?"),
    token("gocardless-token", "GoCardless", "live_", r"(?=[A-Za-z0-9_-]{0,40}[0-9])[A-Za-z0-9_-]{40}"),
    token("duffel-token", "Duffel", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{43}"),
    token("easypost-key", "EasyPost", "EZAK EZTK", r"[A-Za-z0-9]{54}"),
    token("shippo-token", "Shippo", "shippo_live_ shippo_test_", rf"{HEX}{{40}}"),
    token("lob-key", "Lob", "live_", rf"{HEX}{{35}}"),
    token("shopify-token", "Shopify, access tokens", "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_", r"[a-fA-F0-9]{32}"),
    token("twitch-stream-key", "Twitch, stream keys", "live_", r"[0-9]{6,12}_[A-Za-z0-9]{28,34}"),
    # --- messages
    rule(
        "slack-token",
        "Slack, token types",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp-",
        r"(?:xox[a-z]-[0-9]{8,14}-(?:[0-9]{8,14}-){0,3}[A-Za-z0-9/]{16,64}"
        r"|xox[aer]-(?:[0-9]-)?[A-Za-z0-9-]{40,250}|xox[bp]-[0-9]-[A-Za-z0-9-]{40,250}|xoxd-[A-Za-z0-9%+/=]{40,400}"
        r"|xapp-(?:[0-9]-[A-Z0-9]{9,12}-)?[0-9]{8,14}-[A-Za-z0-9/]{20,80})",
        accepts=is_mixed,
    ),
    rule(
        "slack-webhook",
        "Slack, incoming webhooks",
        "hooks.slack",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,255})",
    ),
    rule(
        "discord-webhook", "Discord, webhooks", "/api/webhooks/", r"/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,80})"
    ),
    rule(
        "discord-token",
        "Discord, bot tokens (a snowflake in Base64, a time, an HMAC)",
        "discord bot±",
        r"(?i:discord|bot )[^\n]{0,80}?(?<![\w-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})"
        + RIGHT_WORD,
        accepts=is_mixed,
    ),
    rule(
        "telegram-token",
        "Telegram, bot tokens",
        ":aa",
        LEFT + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,35}" + RIGHT_WORD,
        behind=(8, 9, 10),
        accepts=is_no_example,
    ),
    token("sendgrid-key", "SendGrid, API keys", "SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    token("brevo-key", "Brevo", "xkeysib- xsmtpsib-", rf"{HEX}{{64}}-[A-Za-z0-9]{{16}}"),
    token("mailgun-key", "Mailgun, API keys", "key-", rf"{HEX}{{32}}"),
    rule(
        "mailchimp-key",
        "Mailchimp, API keys",
        "-us",
        LEFT + rf"{HEX}{{32}}-us[0-9]{{1,2}}{RIGHT}",
        behind=(32,),
        accepts=is_no_example,
    ),
    token("resend-key", "Resend", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,28}", accepts=is_mixed),
    rule(
        "twilio-key",
        "Twilio, API keys and auth tokens",
        "twilio",
        rf"(?i:twilio)[^\n]{{0,60}}?{LEFT}((?:SK)?{HEX}{{32}}){RIGHT}",
        accepts=is_no_example,
    ),
    token("facebook-token", "Meta, access tokens", "EAACEdEose0cBA EAA", r"[A-Za-z0-9]{40,400}", accepts=is_mixed),
    rule(
        "facebook-app-token",
        "Meta, app access tokens",
        "facebook fb_ fb-",
        r"(?i:facebook|fb[_-])[^\n]{0,40}?(?<![A-Za-z0-9])([0-9]{13,17}\|[A-Za-z0-9_-]{24,30})" + RIGHT_WORD,
        accepts=is_mixed,
    ),
    # --- other services
    token("adobe-secret", "Adobe, OAuth server-to-server credentials", "p8e-", r"[A-Za-z0-9_-]{32}"),
    token("postman-key", "Postman, API keys", "PMAK-", rf"{HEX}{{24}}-{HEX}{{34}}"),
    token("linear-key", "Linear, API keys", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,64}"),
    token("notion-token", "Notion, authorization", "ntn_", r"[0-9]{10,12}[A-Za-z0-9]{34,36}"),
    token("notion-secret", "Notion, integration tokens", "secret_", r"[A-Za-z0-9]{43}"),
    token("hubspot-token", "HubSpot, private apps", "pat-na1- pat-eu1- pat-na2-", UUID),
    token("dropbox-token", "Dropbox, OAuth", "sl.", r"(?:u\.)?[A-Za-z0-9_-]{120,1400}"),
    token("contentful-token", "Contentful, management tokens", "CFPAT-", rf"{WORD}{{43}}"),
    token("typeform-token", "Typeform", "tfp_", r"[A-Za-z0-9_.=-]{40,80}"),
    token("frameio-token", "Frame.io", "fio-u-", r"[A-Za-z0-9_=-]{64}"),
    token("mapbox-token", "Mapbox, secret tokens", "sk.eyJ tk.eyJ", rf"[A-Za-z0-9_-]{{40,200}}\.{WORD}{{20,32}}"),
    token("samsara-token", "Samsara", "samsara_api_", r"[A-Za-z0-9]{30}"),
    token("settlemint-token", "SettleMint", "sm_aat_ sm_pat_ sm_sat_", r"[A-Za-z0-9]{16}"),
    token("rootly-key", "Rootly", "rootly_", rf"{HEX}{{64}}"),
    token("zoho-token", "Zoho", "1000.", rf"{HEX}{{32}}\.{HEX}{{32}}"),
    token("twitter-bearer", "X, bearer tokens", "AAAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{40,120}", accepts=is_mixed),
    token("intercom-token", "Intercom", "dG9rOj", r"[A-Za-z0-9+/]{50,80}={0,2}"),
    token("intra-token", "42 Intra", "s-s4t2ud- s-s4t2af-", rf"{HEX}{{64}}"),
    token("browserbase-key", "Browserbase", "bb_live_", r"[A-Za-z0-9_-]{24,40}"),
    token("trigger-key", "Trigger.dev", "tr_prod_ tr_dev_", r"[A-Za-z0-9]{20,32}"),
    rule(
        "zapier-webhook",
        "Zapier, webhooks",
        "hooks.zapier.com/hooks/catch/",
        r"hooks\.zapier\.com/hooks/catch/([0-9]{4,12}/[A-Za-z0-9]{5,12})",
    ),
    rule(
        "jwt",
        "RFC 7519",
        "eyj",
        LEFT_WORD + r"eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{4,16384}+\.[A-Za-z0-9_-]{0,2048}",
        verified=is_jwt,
    ),
)
