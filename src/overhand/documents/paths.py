"""The files that a text names, in whatever way: one extractor for lists, tables, links, fences and prose.

The tree decides first: what is there is a file, whatever its name looks like. Only of what is not there must the shape
tell whether a file was meant (`docs/refunds.md`, `LICENSE`) or something else (`Cart.total`, `GET /refunds`, `v1.2.3`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from overhand.documents.inline import cells, inert, is_delimiter, leading_code, plain_items
from overhand.documents.markdown import markdown_lines

Look = Callable[[str], str]
"""What the tree has at a path: `file`, `folder` or nothing."""

_LONGEST = 20_000  # characters of one line that are read: no list of files needs more
_OWN = frozenset(("output.md", "work.md", "handoff.md", "context.md"))
_OWN_IF_MISSING = frozenset(("result.json", "data.json"))
BARE_NAMES = (
    " makefile gnumakefile license licence copying notice readme changelog changes authors contributors"
    " contributing codeowners maintainers todo dockerfile containerfile vagrantfile jenkinsfile procfile gemfile"
    " rakefile podfile brewfile caddyfile justfile taskfile tiltfile pipfile build workspace version security"
    " install news "
)
_SUFFIXES = (
    " adoc ada asm astro avro awk bas bash bat bib bin bmp c cc cfg cfm cjs cl clj cljs cmake cmd cnf conf cpp cs"
    " csproj css csv cts cu cxx d dart db diff dockerfile docx dot ejs el elm env epub erb erl ex exs f90 fish fs"
    " fsx gif go gql gradle graphql groovy gz h haml handlebars hbs hcl hpp hrl hs htm html hxx ico ics ini ipynb"
    " j2 jar java jinja jinja2 jl jpeg jpg js json json5 jsonc jsonl jsx key kt kts l less lhs liquid lisp lock"
    " log lua m mako map markdown md mdc mdx mermaid mjs mk ml mli mm mod mts mustache nim nix njk odt org otf"
    " parquet patch pbtxt pdf pem php pl plist png po pot ppt pptx prisma properties proto ps1 psm1 puml pug pxd"
    " py pyi pyx qml r rb rego rmd robot rs rst rtf s sass sbt scala scm scss sh sln slim snap sol sql sqlite"
    " sqlite3 srt sty styl sum sv svelte svg swift tar tcl template tex text tf tfvars tgz thrift tmpl toml ts tsv"
    " tsx ttf twig txt v vb vbs vcxproj vhd vim vue wasm wat webmanifest webp whl woff woff2 wsgi xhtml xlsx xml"
    " xsd xsl yaml yml zig zip zsh "
)
_PRODUCTS = " node next vue nuxt react three express d3 chart ember backbone nest moment socket "
_HOSTS = " com org net io dev ai app edu gov co "
_COMMANDS = (
    " python python3 py node npm npx pnpm yarn bun deno git make cargo go cat bash sh zsh pytest uv uvx pip pip3"
    " poetry docker kubectl curl wget grep sed awk find ls cd cp mv rm mkdir touch ruff mypy eslint tsc vitest"
    " jest ruby rake bundle java mvn gradle dotnet php composer perl swift terraform ansible ssh sudo export"
    " source echo test diff open run get post put patch delete head options import from select insert update "
)
# words in a table's head: a column of files; a column that only speaks of them
_FILE_COLUMNS = ("path", "file", "location", "where", "artifact", "deliverable", "output", "module", "document", "name")
_NOTE_COLUMNS = (
    " description descriptions notes note what why purpose change changes summary details detail status type lines"
    " reason action comment comments content size tests coverage evidence # no no. + - state "
)

_NO_PATH = frozenset('<>|"=;`?,')  # characters that a name of a file that is not there hardly has
_LINES = re.compile(r"(?:(?::L?\d+(?:[-\u2013:,]L?\d+)*)|#L\d+(?:[-\u2013]L?\d+)?|#[\w-]+)$")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z+.-]+:(?!\d)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TAG = re.compile(r"</?(code|kbd|tt|b|strong|i|em|u|br|p|li|ul|span)\s*/?>", re.IGNORECASE)
_QUOTED = re.compile(
    r"“([^“”]{1,300})”|„([^„“”]{1,300})[“”]|\u2018([^\u2018\u2019]{1,300})\u2019|\"([^\"]{1,300})\"|(?<!\w)'([^']{1,300})'(?!\w)"
)
_TOKEN = re.compile(r"\S*[/.]\S*|(?:(?<=^)|(?<=^.)|(?<=^..))\S+")  # a word that may be a path, or the first one
_WORD = re.compile(r"\w\w")
_NOTE = re.compile(r"\s+(?:—|\u2013|--?)(?=\s|$)|:(?=\s|$)|\s+[=|](?=\s)")
_ARROW = re.compile(
    r"[\s)~*]*(?:→|⇒|->|=>|\bto\b|\binto\b|\bbecomes\b|\bas\b|\bis now\b)[\s(~*]*(?:the\s+)?", re.IGNORECASE
)
_MOVES = re.compile(r"\b(?:renam|mov|copi|merg|split|convert|replac|migrat|extract|r\d{2,3}\b)", re.IGNORECASE)
_GONE_LEAD = re.compile(
    r"(?:^|[^\w])(?:deleted?|removed?|dropped|deletes|removes|deleting|removing|d|git rm|gone|🗑️?)"
    r"(?:[\s:*_()]|\b(?:the|old|obsolete|unused|dead|legacy|stale|empty|files?|modules?|scripts?|documents?|pages?|now|whole)\b)*$",
    re.IGNORECASE,
)
_SOURCE_LEAD = re.compile(
    r"\b(?:renam|mov|extract|copi|split|generat|deriv|port|migrat|convert|built|taken|factored|was|formerly)\w*"
    r"(?: \w+){0,3} from\W*$"
    r"|\b(?:formerly|previously|was|replac\w+|supersed\w+|instead of|in place of)\W*(?:the\W+)?(?:old\W+)?$",
    re.IGNORECASE,
)
_ASIDE_LEAD = re.compile(
    r"\b(?:see|per|like|via|imports?|imported by|uses?|used by|using|than|follow\w*|mirror\w*|match\w*|calls?|called"
    r" (?:by|from)|reads?|reading|against|documented in|described in|referenc\w*|similar to|based on|as in|instead of"
    r"|compared (?:to|with)|run|runs|running)\W*(?:the\W+|also\W+)?$",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|never|no|without|unchanged|untouched|neither|nor|would|should|todo)\b|n['\u2019]t\b", re.IGNORECASE
)
_GONE_NOTE = re.compile(
    r"\W*(?:(?:the |this |whole |old )*(?:file|module|script)s? )?(?:(?:is|was|were|has been|have been|now|being) )*"
    r"(?:deleted|removed|dropped|gone|no longer exists?|renamed|moved)"
    r"(?:\W*$|\W*[,;.:)(—\u2013]|\s+(?:-|--)\s|\s+(?:to|into|as|because|since|in favou?r|entirely|completely|altogether"
    r"|files?|the (?:whole )?file|this file|and (?:replaced|merged|folded)"
    r"|from (?:the )?(?:repo\w*|tree|project|disk|git))\b)",
    re.IGNORECASE,
)
_RENAMED_TO_HERE = re.compile(r"\W*(?:was |is )?(?:renamed|moved)\b[^`\w]*\bfrom\b", re.IGNORECASE)
_PLAIN = re.compile(r"`([^`\s]+)`(?: (?:—|-) ([^`]*(?:`[^`]*`[^`]*)*))?")
_ONLY_CODES = re.compile(r"`[^`\s,]+`(?:, `[^`\s,]+`)+")
_STATUS_LINE = re.compile(r"\s*([AMDRCU?]{1,2}\d{0,3})\s+(\S.*)")


def is_among(word: str, words: str) -> bool:
    """Whether a word is one of these, which stand between blanks."""
    return bool(word) and " " not in word and f" {word.lower()} " in words


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a return names as made or changed; of one that is gone, only its name is left."""

    path: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _Mention:
    start: int
    end: int
    path: str


def says_gone(note: str) -> bool:
    """Whether a note says of the file itself that it is no longer there (“Removed unused imports” does not)."""
    return bool(_GONE_NOTE.match(note)) and not _RENAMED_TO_HERE.match(note)


def named_in(body: str, look: Look, *, gone: bool = False, files: bool = True) -> Iterator[NamedFile]:
    """The files that a section lists; `gone` if it lists deleted ones, `files` if it lists nothing but files."""
    plain = plain_items(body)
    if plain is None:
        return _in_markdown(body, look, gone, files)
    return (one for text in plain for one in _entry(text[:_LONGEST], look, gone, files))


def _in_markdown(body: str, look: Look, gone: bool, files: bool) -> Iterator[NamedFile]:
    table: list[list[str]] | None = None
    below_gone, has_named, in_fence = gone, False, ""
    last = ""
    for line in markdown_lines(body):
        text = body[line.start : min(line.end, line.start + _LONGEST)]
        if line.kind == "comment":
            continue
        if line.kind in ("code", "indented"):
            mark = text.strip()[:3]
            if line.kind == "code" and mark in ("```", "~~~") and in_fence in ("", mark):
                in_fence = "" if in_fence else mark
            else:
                yield from _fence_line(text, look, gone=below_gone)
            continue
        in_fence = ""
        if "|" in text and line.kind != "heading" and (row := cells(text)):
            if table is None and is_delimiter(row) and "|" in last:
                table = [[cell.lower().strip("*_` :") for cell in cells(last)]]
            elif table is not None or text.lstrip().startswith("|"):
                if not is_delimiter(row):
                    yield from _row(row, table[0] if table else [], look, below_gone, files)
            elif not _is_delimiter_next(body, line.end):
                yield from _entry(text, look, below_gone, files)
            last = text
            continue
        table, last = None, text
        if line.kind == "heading":
            below_gone = gone or _is_gone_title(line.text)
            yield from _entry(line.text, look, below_gone, files, loose=False)
            continue
        if line.kind == "text" and line.depth and has_named:
            continue  # the further lines of an entry are its note
        if line.kind == "text" and not line.depth and _is_gone_title(text):
            below_gone = True
        found = list(_entry(line.text if line.kind == "item" else text, look, below_gone, files))
        has_named = bool(found)
        yield from found


def _is_delimiter_next(body: str, end: int) -> bool:
    """Whether the next line is the one below a table's head."""
    following = body[end + 1 : body.find("\n", end + 1) if body.find("\n", end + 1) >= 0 else len(body)]
    return "-" in following and is_delimiter(cells(following))


def _is_gone_title(text: str) -> bool:
    """Whether a label such as `### Deleted` or `**Removed:**` stands above files that are gone."""
    return text.strip(" *_#:\t").lower() in ("deleted", "removed", "deleted files", "removed files", "files deleted")


def artifact_in(path: str, note: str, look: Look) -> Iterator[NamedFile]:
    """The file of a JSON artifact; its path is one by definition, whatever it looks like."""
    is_gone = says_gone(note)
    found = list(_entry(path, look, is_gone, files=True)) if not look(path) else []
    if found:
        yield from found
    elif "://" not in path and not _is_own(path, look):
        yield NamedFile(_CONTROL.sub("\ufffd", path.strip(" `*\"'")), is_gone)


def _fence_line(text: str, look: Look, *, gone: bool) -> Iterator[NamedFile]:
    """A line of a listing: nothing but a path, perhaps with git's letter before it."""
    if any(sign in text for sign in "├└│"):
        return  # a drawing also shows what was there before
    letter = ""
    if match := _STATUS_LINE.fullmatch(text):
        letter, text = match.groups()
    words = text.split()
    if letter[:1] == "R" and len(words) == 2:
        yield NamedFile(words[0], gone=True)
        words = words[1:]
    path = resolve(" ".join(words), look, "bare") if words and len(words) < 4 else None
    if path:
        yield NamedFile(path, gone or letter == "D")


def _row(row: list[str], head: list[str], look: Look, gone: bool, files: bool) -> Iterator[NamedFile]:
    """The files of a table's row: from the column that its head calls one of files, else the first that has any."""
    columns = list(range(len(row)))
    if head:
        score = {i: _column_rank(head[i]) if i < len(head) else 9 for i in columns}
        columns = sorted((i for i in columns if score[i] < 99), key=lambda i: score[i])
    for i in columns:
        others = [one for j, one in enumerate(row) if j != i]
        is_gone = gone or any(says_gone(one) for one in others)
        found = list(_entry(row[i], look, is_gone, files))
        if found:
            yield from found
            return


def _column_rank(title: str) -> int:
    words = title.replace("(s)", "s").split()
    for rank, word in enumerate(_FILE_COLUMNS):
        if any(one.rstrip("s") == word or one == word for one in words):
            return rank
    return 99 if not title or is_among(title, _NOTE_COLUMNS) else 50


def _entry(text: str, look: Look, gone: bool, files: bool, *, loose: bool = True) -> Iterator[NamedFile]:
    """The files of one entry: those before its note, or behind its label."""
    match = _PLAIN.fullmatch(text)
    path = resolve(match[1], look, "code", strong=True, files=files) if match else None
    if match and path and not _MOVES.search(match[2] or ""):  # as the template has it
        yield NamedFile(path, gone or says_gone(match[2] or ""))
        return
    several = [resolve(one, look, "code", strong=True, files=files) for one in _codes(text)]
    if several and all(several):
        yield from (NamedFile(one, gone) for one in several if one)
        return
    text = _TAG.sub(
        lambda tag: "`" if tag[1].lower() in ("code", "kbd", "tt") else " ; " if tag[1] == "br" else "", text
    )
    mentions = list(_mentions(text, look, files, loose=loose))
    if not mentions:
        return
    cut = _NOTE.search(text, mentions[0].end)
    stop = cut.start() if cut else len(text)
    note = text[cut.end() :] if cut else ""
    if cut and not text[mentions[0].end : stop].strip(" *_") and _MOVES.search(note) and says_gone(note):
        stop = len(text)  # `a` — renamed to `b`
    gone = gone or says_gone(note)
    before, at = "", 0
    for index, one in enumerate(mentions):
        if one.start >= stop:
            break
        lead = text[at : one.start].strip()
        at = one.end
        following = mentions[index + 1] if index + 1 < len(mentions) else None
        after = text[one.end : following.start if following else len(text)]
        before = f"{before} {lead}"
        if _DENIED.search(lead) or (_ASIDE_LEAD.search(lead) and not _SOURCE_LEAD.search(lead)):
            continue
        is_gone = gone or bool(_GONE_LEAD.search(lead)) or bool(_SOURCE_LEAD.search(lead)) or lead.endswith("~~")
        is_gone = is_gone or _is_gone_after(after, before, has_next=following is not None)
        if index and not is_gone and _GONE_LEAD.search(text[: mentions[0].start]) and not re.search(r"\w{4}", lead):
            is_gone = True  # Deleted `a`, `b` and `c`
        if index and cut and note and one.start > cut.end() and following is None:
            is_gone = False  # what it was renamed to
        yield NamedFile(one.path, is_gone)


def _codes(text: str) -> list[str]:
    """The inline codes of a text that is nothing but several of them: `` `a.py`, `b.py` ``."""
    return text[1:-1].split("`, `") if _ONLY_CODES.fullmatch(text) else []


def _is_gone_after(after: str, before: str, *, has_next: bool) -> bool:
    """Whether the text behind a file says that it is gone: an arrow to its new name, or `(deleted)`."""
    bare = after.strip()
    if has_next and _ARROW.fullmatch(after):
        return bool(re.search("→|⇒|->|=>", after)) or bool(_MOVES.search(before))
    if has_next and not bare and re.search(r"(?:^|\s)R\d{0,3}$", before.strip()):
        return True
    return bare[:1] in ("(", "[", "~", "*", "_") and says_gone(bare)


def _mentions(text: str, look: Look, files: bool, *, loose: bool) -> Iterator[_Mention]:
    """The paths in one line, in order: links, inline code, quoted names, and words."""
    spans = [(*span, "code") for span in inert(text, 0, len(text)) if text[span[0]] == "`"] if "`" in text else []
    links = list(_links(text)) if "](" in text else []
    mask = bytearray(len(text))
    for start, end, _ in links:
        mask[start:end] = b"\1" * (end - start)
    spans = [one for one in spans if not mask[one[0]]]
    for start, end, _ in spans:
        mask[start:end] = b"\1" * (end - start)
    for match in _QUOTED.finditer(text) if any(sign in text for sign in "“„\u2018\"'") else ():
        if mask.find(1, match.start(), match.end()) < 0:
            spans.append((match.start(), match.end(), "quoted"))
    taken = [(start, end) for start, end, _ in (*links, *spans)]
    pieces: list[tuple[int, int, str, str]] = [(start, end, "link", target) for start, end, target in links]
    pieces += [(start, end, kind, _inside(text[start:end])) for start, end, kind in spans]
    at = 0
    for start, end in [*sorted(taken), (len(text), len(text))]:
        if loose:
            pieces += [(m.start(), m.end(), "bare", m[0]) for m in _TOKEN.finditer(text, at, max(at, start))]
        at = max(at, end)
    whole = _whole(text, look) if loose and not taken else None
    if whole:
        yield _Mention(0, len(whole[0]), whole[1])
        return
    is_first = True
    for start, end, kind, token in sorted(pieces):
        for part in _parts(token, kind, look):
            if path := resolve(part, look, kind, strong=is_first and kind != "bare", files=files, first=is_first):
                yield _Mention(start, end, path)
                is_first = False
        if kind != "bare" or _WORD.search(token):
            is_first = (
                is_first and kind == "bare" and token.rstrip(":").lower() in ("new", "modified", "created", "added")
            )


def _whole(text: str, look: Look) -> tuple[str, str] | None:
    """An entry that begins with a name which has blanks and is there: `docs/my notes.md — sorted`."""
    head = _NOTE.split(text, 1)[0].strip(" *_")
    at = text.find(head) if " " in head and head[-4:].find(".") >= 0 else -1
    return (text[: at + len(head)], head) if at >= 0 and look(head) == "file" else None


def _inside(span: str) -> str:
    """What inline code or quotes hold."""
    bare = span.strip("`") if span[0] == "`" else span[1:-1]
    return bare.strip()


def _links(text: str) -> Iterator[tuple[int, int, str]]:
    """`[text](target)` as (from, to, target); brackets may be nested."""
    at = text.find("](")
    while at >= 0:
        start, depth = at, 1
        while start > 0 and depth:
            start -= 1
            depth += (text[start] == "]") - (text[start] == "[")
        end, open_ = at + 2, 1
        while end < len(text) and open_:
            open_ += (text[end] == "(") - (text[end] == ")")
            end += 1
        if not depth and not open_:
            target = text[at + 2 : end - 1].strip().strip("<>")
            shown = text[start + 1 : at].strip("`* ")
            yield start, end, shown if "://" in target else target
            at = text.find("](", end)
        else:
            at = text.find("](", at + 2)


def _parts(token: str, kind: str, look: Look) -> list[str]:
    """One token, or several if it is a list without blanks (`a.py,b.py`) or has braces (`src/{a,b}.py`)."""
    if "," not in token or look(token):
        return [token]
    if match := re.fullmatch(r"([^{}\s]*)\{([^{}\s]+)\}([^{}\s]*)", token.strip("`*.,;")):
        return [f"{match[1]}{one}{match[3]}" for one in match[2].split(",")]
    return token.split(",") if kind == "bare" or ", " in token else [token]


def resolve(
    token: str, look: Look, kind: str, *, strong: bool = False, files: bool = True, first: bool = True
) -> str | None:
    """The path that a token means, or None if it is no file."""
    path = _bare(token) if kind == "bare" else token.strip()
    path = path.removeprefix("file://")
    path = _CONTROL.sub("\ufffd", path)  # no file has such a name, and no terminal is to see it
    if not path.strip("/.") or "://" in path or (kind == "link" and _SCHEME.match(path)):
        return None
    if kind == "bare" and not ("/" in path or "." in path or (first and is_among(path, BARE_NAMES))):
        return None
    if kind == "link":
        path = _PERCENT.sub(_decoded, path)
    if "\\" in path and "/" not in path and not look(path):
        path = path.replace("\\", "/")
    stripped = _LINES.sub("", path)
    if stripped != path and not look(path):
        path = stripped
    if _is_own(path, look):
        return None
    if path.endswith("/"):
        return path if look(path) == "folder" else None
    if _is_shaped(path, kind, first=first):
        return path
    there = look(path)
    if there:
        return path if there == "file" or "/" in path else None
    if "*" in path and "/" in path and " " not in path:
        return path
    return path if strong and _is_in_folder(path, look, files) else None


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace")


def _bare(token: str) -> str:
    """A word without the emphasis, quotes and punctuation around it."""
    before = ""
    while token != before:
        before = token
        token = (
            token.strip("*\"'“”\u2018\u2019«»`~")
            .rstrip(",;:!?")
            .lstrip("([{" if token.count("(") != token.count(")") else "")
        )
        if token.endswith(".") and not token.endswith(".."):
            token = token[:-1]
        for opener, closer in ("()", "[]", "<>", "{}"):
            if token.endswith(closer) and token.count(closer) > token.count(opener):
                token = token[:-1]
            if token[:1] == opener and token[-1:] == closer:
                token = token[1:-1]
        if token[:2] == "__" == token[-2:]:
            token = token[2:-2]
    return token


def _is_own(path: str, look: Look) -> bool:
    """Whether it is one of the protocol's own documents, which are never deliverables."""
    name = path.rpartition("/")[2].lower()
    if ".agent-workspaces/" in path or name in _OWN:
        return True
    return name in _OWN_IF_MISSING and not look(path)


def _is_shaped(path: str, kind: str, *, first: bool) -> bool:
    """Whether a name is a file's by its shape alone."""
    return (kind != "bare" or first or "/" in path or path[:1] != ".") and _shape(path)


@lru_cache(4096)
def _shape(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    kind = suffix.lower()
    if path[:1] in "-=+#&%" or not _NO_PATH.isdisjoint(path) or "()" in path or path.startswith("http"):
        return False
    if " " in path:
        words = path.lower().split()
        return not is_among(words[0], _COMMANDS) and " -" not in path and bool(stem) and is_among(kind, _SUFFIXES)
    if is_among(name, BARE_NAMES) and (folder or name[:1].isupper()):
        return True
    if name[:1] == "." and name.count(".") < 3 and name[1:2].isalpha() and (stem or not is_among(kind, _SUFFIXES)):
        return len(name) > 3 and (name.replace(".", "").replace("-", "").replace("_", "").isalnum())
    if not stem.strip("._-"):
        return False
    if folder:
        host = folder.partition("/")[0].rpartition(".")
        is_host = bool(host[0]) and is_among(host[2], _HOSTS)
        return not is_host and len(suffix) <= 12 and suffix.replace("_", "").isalnum() and not suffix.isdigit()
    return is_among(kind, _SUFFIXES) and not (kind == "js" and is_among(stem, _PRODUCTS)) and stem[-1] not in "(["


def _is_in_folder(path: str, look: Look, files: bool) -> bool:
    """Whether a name without a suffix is meant as a file: in a list of files, or below a folder that is there."""
    first, slash, rest = path.partition("/")
    if not slash or not first or not rest or any(char in path for char in ' <>|"=;,()?`:') or path[:1] in "~@$-":
        return False
    return files or look(first) == "folder"


_SIGNS_OF_PATH = re.compile(r"[/*?\[]|^\.|\.[A-Za-z]+$")


def promised_path(text: str, look: Look) -> tuple[str | None, str]:
    """What `--deliverable` asks for: a path or glob and its note, or, in doubt, None and the sentence."""
    if quoted := leading_code(text):
        return quoted[0], text[quoted[1] :].lstrip(" \t—\u2013:,-")
    if look(text) == "file":
        return text, ""
    head, dash, note = text.partition(" — ")
    bare = head.strip()
    if "://" in bare or not bare:
        return None, text
    if any(char.isspace() for char in bare):
        folder, slash, _ = bare.rpartition("/")
        is_path = bool(slash) and look(folder) == "folder" and not dash
    else:
        is_path = bool(_SIGNS_OF_PATH.search(bare)) or (is_among(bare, BARE_NAMES) and bare[0].isupper())
    return (bare, note.strip()) if is_path else (None, text)
