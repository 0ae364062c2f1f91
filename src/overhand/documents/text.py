"""From bytes to text: the one place that handles encodings, line ends and sizes."""

from __future__ import annotations

from overhand.documents.problems import Problem, warning

LIMIT = 16 * 1024 * 1024


def decode_text(raw: bytes) -> tuple[str, list[Problem]]:
    """Text with the BOM removed and every line end (CRLF, CR) normalised to LF.

    Documents are read as values, so line ends are normalised here; edits in place work on the undecoded
    text through `overhand.documents.markdown`, whose spans keep CRLF.
    """
    if len(raw) > LIMIT:
        size = f"{len(raw) / 1048576:.1f} MB"
        fix = "Put long material into files and name them here."
        return "", [Problem("too-large", f"The document has {size}; at most 16 MB are read.", fix=fix)]
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    problems: list[Problem] = []
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        text = raw.decode("utf-8", "replace")
        message = f"Byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; it was replaced."
        problems.append(warning("broken-utf8", message, line, "Save the file as UTF-8."))
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        problems.append(
            warning("nul-byte", "The text holds NUL bytes.", line, "Remove them; they may be a torn write.")
        )
    return unix_lines(text), problems


def unix_lines(text: str) -> str:
    """`text` with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def one_line(text: str) -> str:
    """`text` reduced to one line."""
    return " ".join(part for part in unix_lines(text).split("\n") if part) if "\n" in text or "\r" in text else text


def shorten(text: str, limit: int) -> str:
    """`text` cut at a word, with an ellipsis, if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    head = cut.rsplit(" ", 1)[0] if " " in cut[limit // 2 :] else cut
    return head.rstrip(" ,;:") + "…"
