# SPDX-License-Identifier: BSD-3-Clause
"""headers.py - reads a header of include/coll as documents: its sections, declarations and comments.

A comment is plain text in one form.  A blank line ends a paragraph.  A line "label     text", whose text
goes on in lines indented as the text, is a row of a table: a lower-case label is a parameter, "Blocks",
"Returns" and "Errors" are facts of the function, any other label is a note.  An indented block is a table
if its first line is a row, else a program.
"""
import re
from dataclasses import dataclass, field


@dataclass
class Paragraph:
    text: str


@dataclass
class Row:
    label: str
    blocks: list


@dataclass
class Code:
    lines: list


@dataclass
class Declaration:
    name: str  # of the function or type; "" for constants until they have found their page
    kind: str  # function, type, constants
    code: str
    blocks: list
    parameters: list = field(default_factory=list)
    returns: str = ""
    constants: list = field(default_factory=list)  # declarations that the page shows as well


@dataclass
class Section:
    title: str
    items: list = field(default_factory=list)  # Declaration, or a list of blocks for what follows


def indent_of(line):
    return len(line) - len(line.lstrip())


def split_row(line, following):
    """Returns label and text of a row, or None.  `following` is the next line."""
    match = re.match(r"(\S(?:.{0,50}?\S)??) {2,}(\S.*)$", line)
    if match and match[1][-1] not in ".:;,!?":
        return match[1], match[2]
    column = indent_of(following)
    if following.strip() and column >= 6:
        if len(line) < 30:  # a label alone
            return line, ""
        if line[column - 1] == " " and line[column] != " ":
            return line[:column].strip(), line[column:]
    return None


def parse_blocks(lines):
    """Returns the blocks of a text."""
    blocks, i = [], 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif indent_of(line):
            i = parse_indented(lines, i, blocks)
        else:
            row = split_row(line, lines[i + 1] if i + 1 < len(lines) else "")
            i = parse_row(lines, i, row, blocks) if row else parse_paragraph(lines, i, blocks)
    return blocks


def parse_paragraph(lines, i, blocks):
    first = i
    while i < len(lines) and lines[i].strip() and not indent_of(lines[i]):
        if i > first and split_row(lines[i], lines[i + 1] if i + 1 < len(lines) else ""):
            break
        i += 1
    blocks.append(Paragraph(" ".join(line.strip() for line in lines[first:i])))
    return i


def parse_row(lines, i, row, blocks):
    label, text = row
    body = [text] if text else []
    column, i = None, i + 1
    while i < len(lines) and (indent_of(lines[i]) >= 6 or not lines[i].strip() and more_of_row(lines, i)):
        column = min(column or 1000, indent_of(lines[i])) if lines[i].strip() else column
        body.append(lines[i])
        i += 1
    inner = body[:1] if text else []
    inner += [line[column:] if line.strip() else "" for line in body[len(inner) :]]
    blocks.append(Row(label, parse_blocks(inner)))
    return i


def more_of_row(lines, i):
    while i < len(lines) and not lines[i].strip():
        i += 1
    return i < len(lines) and indent_of(lines[i]) >= 6


def parse_indented(lines, i, blocks):
    first = i
    while i < len(lines) and (indent_of(lines[i]) or not lines[i].strip()):
        i += 1
    body = lines[first:i]
    while not body[-1].strip():
        body.pop()
    depth = min(indent_of(line) for line in body if line.strip())
    body = [line[depth:] for line in body]
    if split_row(body[0], body[1] if len(body) > 1 else ""):
        blocks.extend(parse_blocks(body))
    else:
        blocks.append(Code(body))
    return i


def comment_text(lines):
    """Returns the text of a comment: its lines without the marks."""
    text = []
    for line in lines:
        line = re.sub(r"^\s*/\*", "", line)
        line = re.sub(r"\*/\s*$", "", line)
        line = re.sub(r"^ \*", "", line) if not line.startswith("  *") else line
        text.append((line[1:] if line.startswith(" ") else line).rstrip())
    while text and not text[0]:
        text.pop(0)
    while text and not text[-1]:
        text.pop()
    return text


def bare(code):
    return re.sub(r"/\*.*?\*/", "", code, flags=re.S)


def split_parameters(text):
    """Returns the names of the parameters between two parentheses."""
    names = []
    for part in text.split(","):
        match = re.search(r"(\w+)\s*(?:\[\d*\])?\s*$", part)
        if match and match[1] != "void":
            names.append(match[1])
    return names


def declaration(code, text):
    """Makes the Declaration of one declaration's code and its comment."""
    blocks, plain = parse_blocks(text), re.sub(r"\s+", " ", bare(code))
    found = Declaration("", "constants", code, blocks)
    function = re.match(r"COLL_API (.*?)(coll_\w+)\((.*)\);", plain)
    pointer = re.match(r"typedef (.*?)\(\*(coll_\w+)\)\((.*)\);", plain)
    if function or pointer:
        match = function or pointer
        found.name, found.kind = match[2], "function" if function else "type"
        found.returns, found.parameters = match[1].strip(), split_parameters(match[3])
        found.code = re.sub(r"^COLL_API ", "", code)
    elif plain.startswith("typedef"):
        found.name, found.kind = re.search(r"(\w+);$", plain)[1], "type"
    elif re.match(r"struct \w+ \{|extern ", plain):
        found.name, found.kind = re.search(r"(coll_\w+)", plain)[1], "type"
    return found


def read_code(lines, i):
    """Returns the lines of the declaration or of the macros at `i`, and the line after them."""
    first = i
    if lines[i].startswith("#define"):
        while i < len(lines) and (lines[i].startswith("#define") or lines[i - 1].endswith("\\")):
            i += 1
        return lines[first:i], i
    while True:
        i += 1
        code = bare("\n".join(lines[first:i]))
        if code.rstrip().endswith(";") and code.count("{") == code.count("}"):
            return lines[first:i], i


SKIPPED = re.compile(r'#|extern "C"|\}\s*$|$')


def read_header(path):
    """Returns the text of the head comment, and the sections."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    comments, sections, i = [], [Section("")], 1
    comment = None
    while i < len(lines):
        line = lines[i]
        title = re.match(r"/\* -+ (.*?) -+ \*/$", line)
        macro = line.startswith("#define") and comment is not None
        if title:
            sections.append(Section(title[1]))
            i += 1
        elif line.startswith("/*"):
            first = i
            while not lines[i].rstrip().endswith("*/"):
                i += 1
            i += 1
            comment = comment_text(lines[first:i])
            if not lines[i] or lines[i].startswith("#ifndef"):
                if len(sections) == 1:
                    comments.append(comment)
                else:
                    sections[-1].items.append(parse_blocks(comment))
                comment = None
        elif SKIPPED.match(line) and not macro:
            i, comment = i + 1, None
        else:
            code, i = read_code(lines, i)
            sections[-1].items.append(declaration("\n".join(code), comment or []))
            comment = None
    return comments[0] if comments else [], [s for s in sections if s.items]


def place_constants(section):
    """Gives the constants of a section to the declarations whose pages show them."""
    named = {d.name: d for d in section.items if isinstance(d, Declaration) and d.name}
    kept, waiting, simple = [], [], None
    for item in section.items:
        if isinstance(item, Declaration) and item.kind == "constants":
            owner = named.get(constants_owner(item)) or simple
            (owner.constants if owner else waiting).append(item)
            continue
        kept.append(item)
        if isinstance(item, Declaration):
            if re.match(r"typedef int32_t \w+;$", item.code):
                simple = item
            else:
                item.constants.extend(waiting)
                waiting, simple = [], None
    section.items = kept + waiting


def constants_owner(item):
    text = item.blocks[0].text if item.blocks and isinstance(item.blocks[0], Paragraph) else ""
    match = re.search(r"\b(?:[Bb]its of|[Vv]alues of|, for) (coll_\w+)", text)
    return match and match[1]


def first_sentence(blocks):
    text = next((b.text for b in blocks if isinstance(b, Paragraph)), "")
    return re.split(r"\.\s+(?=[A-Z])", text)[0].rstrip(".:")


def all_text(blocks):
    """Returns every word of some blocks, as one string."""
    parts = []
    for block in blocks:
        if isinstance(block, Paragraph):
            parts.append(block.text)
        elif isinstance(block, Row):
            parts.append(block.label + " " + all_text(block.blocks))
        else:
            parts.append("\n".join(block.lines))
    return " ".join(parts)
