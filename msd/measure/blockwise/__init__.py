"""Where a compressed network loses its precision: block by block, each alone, on real inputs."""
