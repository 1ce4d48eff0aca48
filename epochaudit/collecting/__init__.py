"""`epochaudit collect`: copies hosts' log and data directories into one capture.

    selection ──► copying ──► writing
    (which file,   (what of it   (a folder or
     what kind)     leaves)       an archive)

Only what an audit reads leaves a host: files of known kinds, known settings, and the batch headers and transaction
markers of data segments.
Logs are copied whole, with possible secrets overwritten.
"""
