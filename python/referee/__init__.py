"""The referee: kernels that other people wrote, run on a GPU and judged by etalon (docs/referee.md)."""
