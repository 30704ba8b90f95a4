"""What do the codes of trimmed answers mean, in words?"""

from typing import Final

#: Why an answer that would lose sentences goes to a person instead, by its code.
REVIEWS: Final = {
    "undefined": "a sentence has no score (--undefined review)",
    "leans": "a sentence that is left refers to one that would go",
    "together": "a quotation, a table row, a code block or brackets would be torn apart",
}
