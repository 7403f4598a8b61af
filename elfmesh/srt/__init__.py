"""Room: srt."""
