"""The truth on disk: events, log, fold, store, overview."""
