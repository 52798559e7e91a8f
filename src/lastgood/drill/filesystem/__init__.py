"""A file system by FUSE that is full, slow or fails when told to, over a directory that stays what it is."""
