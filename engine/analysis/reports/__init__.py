"""Reports: results, tables, transcripts, and verdicts from other sources."""
