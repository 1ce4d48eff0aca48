"""What each rule can judge without some kind of log, measured on the recorded captures."""
