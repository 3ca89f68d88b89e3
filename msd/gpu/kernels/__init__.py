"""The kernels: each module turns one kind of operation into dispatches, with its WGSL."""
