# Filled by the packaging part.
