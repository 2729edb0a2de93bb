"""The site that `make docs` builds from these pages: offline, without a script from elsewhere."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

project = "headscope"
author = "headscope developers"
version = release = version_of("headscope")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "headscope"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
# What stands beside the pages: llms.txt, and the demo's report where `make docs` put it.
html_extra_path = ["llms.txt", *(["_demo"] if (Path(__file__).parent / "_demo").is_dir() else [])]


def _write_math(self, node: nodes.Node, is_block: bool) -> None:
    """A formula as MathML, which browsers draw without a script."""
    formula = latex2mathml.tex2mathml(node.astext(), as_block=is_block)
    self.body.append(f'<div class="math">{formula}</div>' if is_block else formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer(
        "mathml",
        (lambda self, node: _write_math(self, node, False), None),
        (lambda self, node: _write_math(self, node, True), None),
    )
