"""JAX functions of records as ONNX graphs of plain operators, for receivers without this package."""
