"""Log time: time zones, daylight saving time and clocks that are set back."""
