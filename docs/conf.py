# SPDX-License-Identifier: BSD-3-Clause
# conf.py - Sphinx's settings for the pages that pages.py writes beside its copy of this file.
import json
import os
import re
import time

from docutils import nodes

with open("pages.json", encoding="utf-8") as file:
    known = json.load(file)

project = "libcoll"
author = "the authors of libcoll"
version = release = "libcoll " + os.environ.get("COLL_VERSION", "")
today = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
smartquotes = False
primary_domain = "c"
highlight_language = "none"

man_pages = [(name, name, text, "", section) for name, section, text in known["pages"]]
man_make_section_directory = False

html_theme = "alabaster"
html_theme_options = {"description": "collective communication, one API for every backend", "page_width": "1100px"}
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
manpages_url = "{page}.html"


def finish_man(app, error):
    """Takes two habits of Sphinx out of the pages, which mandoc calls wrong, and writes the links to pages."""
    if error or app.builder.name != "man":
        return
    for name, section, _ in known["pages"]:
        path = os.path.join(app.outdir, "%s.%d" % (name, section))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"^(\.S[HS] .*\n)\.sp\n", r"\1", text, flags=re.M)
        text = re.sub(r"^\.ft [CP]\n", "", text, flags=re.M)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for name, section, home in known["links"]:
        with open(os.path.join(app.outdir, "%s.%d" % (name, section)), "w", encoding="utf-8") as file:
            file.write(".so man%d/%s.%d\n" % (section, home, section))


def drop_links(app, doctree, name):
    """Takes the links out of man pages, since newer Sphinx prints where they lead."""
    if app.builder.name == "man":
        for link in list(doctree.findall(nodes.reference)):
            place = link.parent.index(link)
            link.parent[place : place + 1] = link.children


def setup(app):
    app.connect("doctree-resolved", drop_links)
    app.connect("build-finished", finish_man)
