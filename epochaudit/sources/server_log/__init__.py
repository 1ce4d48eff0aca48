"""server.log and controller.log."""
