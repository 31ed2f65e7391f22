"""FOLDER WIDTH TEXT...: the vectors that fastembed computes with a folder's ONNX graph, a line each."""

import sys

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

folder, width, *texts = sys.argv[1:]
TextEmbedding.add_custom_model(
    model="org/name",
    pooling=PoolingType.DISABLED,  # pooling, maps and norm are in the graph
    normalization=False,
    sources=ModelSource(hf="org/name"),
    dim=int(width),
    model_file="onnx/model.onnx",
)
for vector in TextEmbedding("org/name", specific_model_path=folder, threads=1).embed(texts):
    print(*vector.tolist())
