"""The laboratory: scripts that answered a question once; docs/lab.md says which page has the answer."""
