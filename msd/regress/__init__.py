"""Pictures of a converted bundle against golden ones: a guard that fails when they get worse."""
