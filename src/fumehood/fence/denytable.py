"""The built-in denylist as a table: a pattern, and what it keeps back. Pure data, published in docs/reference.

A pattern is matched against each component of a path, in any case; one with a `/` against components that follow one
another, wherever they stand. `*`, `?` and `[…]` stand for characters of one component. Whatever lies below a component
that matches is denied as well.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One row."""

    pattern: str
    holds: str


def _rows(holds: str, patterns: str) -> tuple[Rule, ...]:
    return tuple(Rule(pattern, holds) for pattern in patterns.split())


# What tells a reader which variables there are, by convention without their values. Only whole names, only of the
# built-in patterns: an operator's list still denies them.
SERVED = frozenset({".env.dist", ".env.example", ".env.sample", ".env.template"})

TABLE: tuple[Rule, ...] = (
    *_rows("version control: history is read through git alone", ".git *.git .hg .svn .bzr .jj"),
    *_rows("tokens of git, in the clear", ".git-credentials .git-credentials-* .gitcookies"),
    *_rows("environment files", ".env .env.* .env-* .env_* *.env .envrc"),
    *_rows("private keys and key stores", "*.pem *.key *.p8 *.p12 *.pfx *.pk8 *.jks *.jceks *.bks *.keystore *.ppk"),
    *_rows("private keys and key stores", "*.keytab *.agekey *.ovpn *.asc.key"),
    *_rows("keys of ssh", ".ssh id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk id_xmss"),
    *_rows("keys of ssh", "ssh_host_*_key *_rsa *_ed25519 *_ecdsa"),
    *_rows("keys of GnuPG", ".gnupg secring.gpg secring.skr pubring.kbx trustdb.gpg private-keys-v1.d"),
    *_rows("password stores and keychains", "*.kdb *.kdbx *.psafe3 *.agilekeychain *.opvault .password-store"),
    *_rows("password stores and keychains", "*.keychain *.keychain-db *.keyring library/keychains share/keyrings"),
    *_rows("passwords of a browser", "logins.json key3.db key4.db signons.sqlite cookies.sqlite"),
    *_rows("logins of hosts", ".netrc _netrc .authinfo .authinfo.gpg"),
    *_rows("tokens of package registries", ".npmrc .pypirc .gem/credentials .cargo/credentials"),
    *_rows("tokens of package registries", ".cargo/credentials.toml .gradle/gradle.properties .m2/settings.xml"),
    *_rows("tokens of package registries", ".m2/settings-security.xml .composer/auth.json"),
    *_rows("logins of cloud providers", ".aws .azure .oci .config/gcloud .boto .s3cfg .databrickscfg .bluemix"),
    *_rows("logins of cloud providers", "application_default_credentials.json accesstokens.json azureprofile.json"),
    *_rows("logins of cloud providers", "msal_token_cache.* *.publishsettings local.settings.json rclone.conf"),
    *_rows("service accounts", "*service-account*.json *service_account*.json *serviceaccount*.json"),
    *_rows("service accounts", "*-adminsdk-*.json client_secret*.json gcp-key*.json credentials.json"),
    *_rows("service accounts", ".credentials.json credentials.csv accesskeys.csv *_accesskeys.csv"),
    *_rows("logins of clusters and registries", ".kube kubeconfig kubeconfig.* *.kubeconfig .dockercfg"),
    *_rows("logins of clusters and registries", ".docker/config.json .dockerconfigjson containers/auth.json"),
    *_rows(
        "state and variables of Terraform", "*.tfstate *.tfstate.* *.tfvars *.tfvars.json .terraformrc terraform.rc"
    ),
    *_rows("state and variables of Terraform", "credentials.tfrc.json .pulumi/credentials.json"),
    *_rows("vaults", ".vault-token .vault_pass* .vault-pass* vault_pass.txt .chef"),
    *_rows("files named for their secrets", "secrets.json secrets.yml secrets.yaml secrets.toml secrets.ini"),
    *_rows("files named for their secrets", "secrets.env secrets.properties *.secret *.secrets master.key"),
    *_rows(
        "tokens of command-line tools", ".config/gh/hosts.yml .config/hub .config/glab-cli .config/op .codex/auth.json"
    ),
    *_rows("logins of databases", ".pgpass pgpass.conf .my.cnf .mylogin.cnf .dbshell"),
    *_rows("password hashes", ".htpasswd htpasswd *.htpasswd .htdigest etc/shadow etc/gshadow"),
    *_rows("histories of shells and consoles", ".*_history *_history.txt fish_history .histfile .lesshst .viminfo"),
)
