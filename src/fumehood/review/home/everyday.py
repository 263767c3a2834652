"""What else lies in a home: shell files, a history, some documents. No credential is in them. Pure."""

import random
from collections.abc import Iterator

from fumehood.review.home import draws
from fumehood.review.home.model import PRIVATE, Kept, Person

_BASHRC = """# ~/.bashrc: executed by bash for non-login shells.
case $- in
    *i*) ;;
      *) return;;
esac
HISTCONTROL=ignoreboth
HISTSIZE={size}
shopt -s histappend checkwinsize
alias ll='ls -alF'
alias gs='git status'
export EDITOR={editor}
"""
_PROFILE = """# ~/.profile: executed by the command interpreter for login shells.
if [ -n "$BASH_VERSION" ] && [ -f "$HOME/.bashrc" ]; then
    . "$HOME/.bashrc"
fi
PATH="$HOME/bin:$PATH"
"""
_COMMANDS = (
    *("ls", "ll", "git status", "git pull", "git push", "git diff", "npm test", "npm run build", "npm install"),
    *(
        "docker ps",
        "docker compose up -d",
        "kubectl get pods",
        "make",
        "htop",
        "df -h",
        "exit",
        "python3 -m venv .venv",
    ),
    *("git log --oneline", "vim README.md", "code .", "npx tsc --noEmit", "git stash", "git stash pop", "cd .."),
)
_SENTENCES = (
    "call {name} about the invoice",
    "move {project} to the new build server",
    "ask for access to {project}",
    "write down how the backup of {project} works",
    "{name} is on holiday until the {day}th",
    "renew the certificate of {project} before the {day}th",
    "review the tests of {project} with {name}",
    "order a second screen",
)


def drawn(person: Person, chance: random.Random) -> Iterator[Kept]:
    """Shell files and documents."""
    size, editor = chance.choice((1000, 2000, 5000, 10000)), chance.choice(("vim", "nano", "emacs"))
    yield Kept(path=".bashrc", text=_BASHRC.format(size=size, editor=editor))
    yield Kept(path=".profile", text=_PROFILE)
    yield Kept(path=".bash_history", text=_history(person, chance), mode=PRIVATE)
    for number in range(chance.randint(3, 6)):
        title = chance.choice(("notes", "todo", "meeting", "ideas", *person.projects))
        folder = chance.choice(("Documents", "Documents/work", "Desktop"))
        yield Kept(path=f"{folder}/{title}-{number + 1}.{chance.choice(('md', 'txt'))}", text=_note(person, chance))


def _history(person: Person, chance: random.Random) -> str:
    lines: list[str] = []
    for _ in range(chance.randint(60, 240)):
        if chance.random() < 0.2:  # noqa: PLR2004 - every fifth command changes the folder
            lines.append(f"cd ~/{chance.choice(('src', 'work', 'code'))}/{chance.choice(person.projects)}")
        else:
            lines.append(chance.choice(_COMMANDS))
    return "\n".join(lines) + "\n"


def _note(person: Person, chance: random.Random) -> str:
    lines = [f"# {chance.choice(person.projects).capitalize()}", ""]
    for sentence in chance.sample(_SENTENCES, k=chance.randint(2, 5)):
        name = draws.name(chance, 2).capitalize()
        project = chance.choice(person.projects)
        lines.append("- " + sentence.format(name=name, project=project, day=chance.randint(4, 28)))
    return "\n".join(lines) + "\n"
