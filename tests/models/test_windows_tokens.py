from __future__ import annotations

import pytest

from calibrail.models.windows import Side, TokenPair, read, readable
from tests.installed import need
from tests.tiny_models import CLASSIFIERS, make_tokenizer

need("transformers")

LONG = "the river rhine flows from the alps, in snow.\nthe old tower 1999"
SHORT = "a ship sails north!"


def text_of(tokenizer: object, tokens: TokenPair, side: Side) -> str:
    text = tokenizer.decode(tokens.ids[side.first : side.stop])  # type: ignore[attr-defined]
    return " ".join(text.replace(" ,", ",").replace(" .", ".").replace(" !", "!").split())


class TestPairs:
    @pytest.mark.parametrize("kind", CLASSIFIERS)
    @pytest.mark.parametrize("long_first", [True, False])
    def test_they_are_what_the_tokenizer_makes(self, kind: str, long_first: bool) -> None:
        tokenizer = make_tokenizer(kind)
        (tokens,) = read(tokenizer, [LONG], [SHORT], long_first=long_first)
        plain = tokenizer(*((LONG, SHORT) if long_first else (SHORT, LONG)))
        assert tokens.ids == plain["input_ids"]
        if "token_type_ids" in plain:
            assert tokens.types == plain["token_type_ids"]
        assert text_of(tokenizer, tokens, tokens.long) == " ".join(LONG.split())
        assert text_of(tokenizer, tokens, tokens.short) == SHORT
        assert len(tokens.long.offsets) == len(tokens.long)

    def test_a_bert_tells_the_texts_apart(self) -> None:
        (tokens,) = read(make_tokenizer("bert"), [LONG], [SHORT], long_first=True)
        assert set(tokens.types[tokens.long.first : tokens.long.stop]) == {0}
        assert set(tokens.types[tokens.short.first : tokens.short.stop]) == {1}

    @pytest.mark.parametrize("kind", CLASSIFIERS)
    def test_offsets_and_words_are_those_of_the_text(self, kind: str) -> None:
        (tokens,) = read(make_tokenizer(kind), [LONG], [SHORT], long_first=False)
        pieces = [LONG[a:b].strip() for a, b in tokens.long.offsets]
        assert "rhine" in pieces
        starts = [tokens.long.offsets[i][0] for i in tokens.long.words]
        assert starts == sorted(starts)
        assert {LONG.index("river"), LONG.index("tower")} <= {
            start + (LONG[start] == " ") for start in starts
        }
        first_letter = pieces.index("1")
        assert first_letter + 1 not in tokens.long.words  # 1999 is one word

    @pytest.mark.parametrize("kind", CLASSIFIERS)
    @pytest.mark.parametrize("texts", [("", SHORT), (LONG, ""), ("", "")])
    def test_empty_texts_have_no_tokens(self, kind: str, texts: tuple[str, str]) -> None:
        tokenizer = make_tokenizer(kind)
        (tokens,) = read(tokenizer, [texts[0]], [texts[1]], long_first=True)
        assert tokens.ids == tokenizer([texts[0]], [texts[1]])["input_ids"][0]
        assert bool(tokens.long) == bool(texts[0])
        assert bool(tokens.short) == bool(texts[1])


class TestPrompts:
    TEMPLATE = "<pad> closed at noon?\n\nmonday: {long}\n\ngarden: {short}"

    @pytest.mark.parametrize("long", [LONG, " " + LONG + " ", "", "\u4e2d\u6587"])
    @pytest.mark.parametrize("short", [SHORT, "\n" + SHORT, ""])
    def test_they_are_the_filled_template(self, long: str, short: str) -> None:
        tokenizer = make_tokenizer("t5")
        (tokens,) = read(tokenizer, [long], [short], self.TEMPLATE)
        plain = tokenizer(self.TEMPLATE.format(long=long, short=short))
        assert tokens.ids == plain["input_ids"]
        assert len(tokens.long.offsets) == len(tokens.long)
        if long == LONG:
            assert text_of(tokenizer, tokens, tokens.long) == " ".join(LONG.split())
            assert [long[a:b] for a, b in tokens.long.offsets][:3] == ["the", "river", "rhine"]
        if short.strip():
            assert text_of(tokenizer, tokens, tokens.short) == SHORT
            assert tokens.short.offsets[-1][1] == len(short)

    def test_a_text_with_a_place_holder_is_only_text(self) -> None:
        tokenizer = make_tokenizer("t5")
        (tokens,) = read(tokenizer, ["sea {short} sea"], ["bell {long}"], self.TEMPLATE)
        assert text_of(tokenizer, tokens, tokens.long) == "sea {short} sea".replace(
            "{", "<unk> "
        ).replace("}", "<unk>").replace("<unk> short", "<unk>short")


class TestReadable:
    def test_characters_keep_their_places(self) -> None:
        text = "sea \ud800 [SEP] snow </s>"
        (found,) = readable([text], ["[SEP]", "</s>"])
        assert found == "sea \ufffd  SEP] snow  /s>"
        assert len(found) == len(text)

    @pytest.mark.parametrize("kind", CLASSIFIERS)
    def test_a_text_cannot_end_itself(self, kind: str) -> None:
        tokenizer = make_tokenizer(kind)
        sign = tokenizer.sep_token
        text = f"the sea {sign} the snow {tokenizer.pad_token} {tokenizer.cls_token}"
        (tokens,) = read(tokenizer, [text], [SHORT], long_first=True)
        inside = tokens.ids[tokens.long.first : tokens.long.stop]
        assert not set(inside) & {
            tokenizer.sep_token_id,
            tokenizer.pad_token_id,
            tokenizer.cls_token_id,
        }
        outside = len(tokens.ids) - len(inside)
        (plain,) = read(tokenizer, ["the sea"], [SHORT], long_first=True)
        assert outside == len(plain.ids) - len(plain.long)
