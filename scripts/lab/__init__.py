"""The laboratory: scripts that answered a question once; docs/lab.md says what, where and when."""
