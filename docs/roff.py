# SPDX-License-Identifier: BSD-3-Clause
"""roff.py - reads a man page that is written by hand, as reStructuredText for the HTML reference.

It knows the macros of tools/coll.1: sections, paragraphs, tagged paragraphs, fonts and literal text.
"""
import re

CHARACTERS = {"\\-": "-", "\\&": "", "\\ ": " ", "\\(oq": "'", "\\(cq": "'", "\\(lq": '"', "\\(rq": '"', "\\e": "\\"}
MARKS = {"B": "**", "I": "*", "R": ""}


def plain(text):
    return re.sub(r"\\(?:\(..|.)", lambda m: CHARACTERS.get(m[0], m[0]), text)


def styled(text, font):
    """Returns one piece of text in a font, as reStructuredText."""
    text = plain(text)
    mark = MARKS[font]
    safe = re.sub(r"([\\*`|_<>])", r"\\\1", text)
    body = safe.strip()
    if not body or not mark:
        return safe
    return "%s\\ %s%s%s\\ %s" % (safe[: len(safe) - len(safe.lstrip())], mark, body, mark,
                                 safe[len(safe.rstrip()):])


def words(text):
    return [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|((?:\\.|\S)+)', text)]


def line_text(line):
    """Returns one line of text or one line with a font macro."""
    macro = re.match(r"\.(B|I|BR|IR|RB|RI) (.*)$", line)
    if not macro:
        fonts = re.split(r"\\f([BIRP])", line)
        parts = [styled(fonts[0], "R")]
        return "".join(parts + [styled(text, font.replace("P", "R")) for font, text in zip(fonts[1::2], fonts[2::2])])
    fonts, pieces = macro[1], words(macro[2])
    if len(fonts) == 1:
        return styled(" ".join(pieces), fonts)
    return "".join(
        "".join(styled(t, f) for t, f in zip(re.split(r"\\f[BIRP]", piece), fonts_of(piece, fonts[n % 2])))
        for n, piece in enumerate(pieces))


def fonts_of(piece, font):
    """Returns the fonts of a piece that changes its font within: \\fIN\\fP."""
    return [font] + [f if f != "P" else font for f in re.findall(r"\\f([BIRP])", piece)]


def read_page(path):
    """Returns the page's sections as lines of reStructuredText, without its name."""
    with open(path, encoding="utf-8") as file:
        source = [line for line in file.read().split("\n") if not line.startswith((".\\\"", ".TH"))]
    lines, text, tagged, i = [], [], False, 0

    def flush():
        if text:
            lines.extend([("   " if tagged else "") + " ".join(text), ""])
            text.clear()

    while i < len(source):
        line = source[i]
        heading = re.match(r"\.S([HS]) \"?(.*?)\"?$", line)
        if heading:
            flush()
            tagged = False
            title = plain(heading[2]).capitalize() if heading[1] == "H" else plain(heading[2])
            lines += [title, ("-" if heading[1] == "H" else "~") * len(title), ""]
        elif line in (".PP", ".RS", ".RE", ".br"):
            flush()
            tagged = tagged and line != ".PP"
        elif line == ".TP":
            flush()
            tagged = True
            i += 1
            lines.append(re.sub(r"\\ ?$", "", line_text(source[i])).strip())
        elif line == ".nf":
            flush()
            end = source.index(".fi", i)
            lines += ["::", ""] + ["   " + plain(literal) for literal in source[i + 1 : end]] + [""]
            i = end
        elif line:
            text.append(line_text(line))
        i += 1
    flush()
    start = next(n for n, line in enumerate(lines) if line == "Synopsis")
    return lines[start:]
