from dataclasses import fields, replace

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec

FULL = Call(
    Request(
        "m",
        (Message("user", "hi"),),
        temperature=0.5,
        top_p=0.9,
        max_tokens=7,
        stop=("END",),
        tools=(ToolSpec("t", "d", "{}"),),
        response_format=ResponseFormat("f", "{}"),
        top_logprobs=3,
        effort="low",
    ),
    (4,),
)


def test_a_drawn_call_differs_in_its_draw_alone():
    assert FULL.drawn(2) == replace(FULL, draw=(2, 4))


def test_the_full_call_above_leaves_no_field_at_its_default():
    plain = Request("m", (Message("user", "hi"),))
    same = {
        field.name
        for field in fields(Request)
        if getattr(FULL.request, field.name) == getattr(plain, field.name)
    }
    assert same == {"model", "messages"}
