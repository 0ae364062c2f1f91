"""Tags in Markdown and the tasks behind them."""
