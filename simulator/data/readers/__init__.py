"""One reader a format, behind two small protocols: text in documents, or token ids in arrays.

Readers hold to one convention for text: documents come in a fixed order (files by name, lines by
number), empty ones are skipped and counted, and the rest are joined by a blank line.
"""
