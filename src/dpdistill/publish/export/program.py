"""Writes predict.py, which classifies image files by an ONNX file with NumPy, onnxruntime and Pillow alone."""

from __future__ import annotations

import inspect

from dpdistill.folder.layout import MODEL
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.schema import AnySchema, Schema
from dpdistill.storage import straighten

PROGRAM = '''"""Classifies images: python predict.py IMAGE... (pip install numpy onnxruntime pillow).

An IMAGE is a file such as scan.png, or images.npy with an array (n, height, width, channels) of raw values.
Prints the file, the class and the class's lead over the second class, one line per image.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
{constants}

class Classifier:
    """The classifier of this folder: scores(X) of images X (n, height, width, channels) in raw values."""

    def __init__(self, file=Path(__file__).with_name({file!r})):
        self.session = onnxruntime.InferenceSession(str(file))
        facts = self.session.get_modelmeta().custom_metadata_map
        self.classes = json.loads(facts["classes"])
        self.low, self.high = json.loads(facts["bounds"])
        self.shape = tuple(self.session.get_inputs()[0].shape[1:])

    def read(self, file):
        """Returns the images of a file, in raw values; images of another size are resized."""
        if str(file).endswith(".npy"):
            return np.load(file, allow_pickle=False)
        height, width, channels = self.shape
        with Image.open(file) as image:
            image = image.convert("L" if channels == 1 else "RGB")
            if image.size != (width, height):
                print(f"{{file}}: resized from {{image.size}} to {{(width, height)}}", file=sys.stderr)
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(image).reshape(1, *self.shape)
        return pixels if (self.low, self.high) == (0, 255) else self.low + pixels / 255 * (self.high - self.low)

    def scores(self, X, at_once=100):
        """Returns (n, classes): the largest score is the class."""
        parts = [X[i : i + at_once] for i in range(0, len(X), at_once)]
        return np.concatenate([self._scores({prepared}) for part in parts])

    def _scores(self, X):
        return self.session.run(None, {{"images": np.asarray(X, np.float32)}})[0]
{functions}

def main(files):
    classifier = Classifier()
    for file in files:
        for scores in classifier.scores(classifier.read(file)):
            second, first = np.sort(scores)[-2:] if len(scores) > 1 else (0.0, scores[0])
            print(f"{{file}}\\t{{classifier.classes[scores.argmax()]}}\\t{{first - second:.3f}}")


if __name__ == "__main__":
    main(sys.argv[1:]) if len(sys.argv) > 1 else sys.exit(__doc__)
'''
_CONSTANTS = ("MOST_SLANT", "LEAST_ZOOM", "MOST_ZOOM", "STRENGTH", "HEIGHT", "WIDTH", "FAINT")
_FUNCTIONS = (straighten._straightened, straighten._affine, straighten._zoom, straighten._pixels)


def describe(folder: Folder, publisher: Publisher) -> str:
    """Returns the text of predict.py for classifier.onnx.

    Args:
        folder: contents of a shared folder with classifier.onnx.
        publisher: not used: a program states no facts of a publisher.
    """
    return program_of(folder.schema, MODEL)


def program_of(schema: AnySchema, file: str) -> str:
    """Returns the text of predict.py; classes, bounds and size are read from the ONNX file when the program runs.

    Args:
        schema: states whether images are straightened first.
        file: name of the ONNX file.
    """
    facts = {"file": file, "constants": "", "functions": "", "prepared": "part"}
    if isinstance(schema, Schema) and schema.straightened:
        constants = "".join(f"{name} = {getattr(straighten, name)!r}\n" for name in _CONSTANTS)
        functions = "\n\n".join(inspect.getsource(function) for function in _FUNCTIONS)
        facts |= {"constants": f"\n{constants}", "functions": f"\n\n{functions}"}
        facts["prepared"] = "np.stack([_straightened(image) for image in part])"
    return PROGRAM.format(**facts)
