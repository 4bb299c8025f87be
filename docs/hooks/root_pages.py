# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Pages that live in the repository's root, where readers of the repository look for them, on the site too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES: Final = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_TO_PAGE: Final = re.compile(r"\]\(docs/")
# A link to another file of the repository, which the site does not have.
_TO_FILE: Final = re.compile(r"\[([^]]+)\]\((?!docs/|https?:|#)([^)]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages. Links to ``docs/page.md`` become links to ``page.md``, other files are named without a link."""
    root = Path(config.config_file_path).parent
    for page, source in PAGES.items():
        text = _TO_PAGE.sub("](", _TO_FILE.sub(r"`\2`", (root / source).read_text()))
        files.append(File.generated(config, page, content=text))
    return files
