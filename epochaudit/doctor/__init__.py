"""`epochaudit doctor`: what a capture can prove, and what to record to prove more."""
