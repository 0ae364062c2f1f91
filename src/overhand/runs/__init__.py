"""One run from start to verdict: prepare, start, settle, stop, judge, hand over."""
