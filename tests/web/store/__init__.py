"""Tests of the page's store (msd/export/web/site/msd/store.js)."""
