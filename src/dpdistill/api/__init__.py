"""Public functions, one module per verb; `dpdistill` exports them and the command line calls them."""
