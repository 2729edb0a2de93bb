"""The matrix of distances as cells and as an image: the same colours, and small."""

import re
import zlib
from base64 import b64decode

import numpy as np
import pandas as pd

from headscope.analyses.distance.charts import PIXELS, draw_cells, image_address, palette
from headscope.view.figure import list_figures, render, style
from tests.report.figures.made import make_tables
from tests.report.figures.test_figure import data_of

ORDER = pd.DataFrame({"layer": [1, 1, 2], "head": [1, 2, 1]})
MATRIX = np.array([[0.0, 0.2, 0.6], [0.2, 0.0, 0.3], [0.6, 0.3, 0.0]])


def test_cells_and_image_have_the_same_colours() -> None:
    picture = render(style(draw_cells(MATRIX, ORDER), ""), "svg").decode()
    drawn = re.findall(r'fill="rgb\((\d+), (\d+), (\d+)\)"', picture)
    cells = np.array(drawn, dtype=int)
    colours = np.frombuffer(palette(), np.uint8).reshape(-1, 3).astype(int)
    expected = colours[np.rint(255 * MATRIX.ravel() / 0.6).astype(int)]
    assert np.abs(cells - expected).max() <= 1


def test_an_image_holds_every_cell_at_its_place() -> None:
    png = b64decode(image_address(MATRIX, 0.6).partition(",")[2])
    start = png.index(b"IDAT") + 4
    length = int.from_bytes(png[start - 8 : start - 4], "big")
    rows = np.frombuffer(zlib.decompress(png[start : start + length]), np.uint8)
    shades = rows.reshape(3 * PIXELS, -1)[::PIXELS, 1::PIXELS]
    assert np.array_equal(shades, np.rint(255 * MATRIX / 0.6))


def test_many_heads_are_an_image_whose_rows_are_still_heads() -> None:
    chart = list_figures()["distance-matrix"].draw(make_tables(24, 16))
    assert "data:image/png" in chart.to_json()
    assert len([row for row in data_of(chart) if "head" in row]) == 384
    assert len(chart.to_json(indent=None)) < 400_000
