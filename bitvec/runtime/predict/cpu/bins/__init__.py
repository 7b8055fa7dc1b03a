"""What turns X into planes: bytes for each row of a block, which nodes read in its place."""
