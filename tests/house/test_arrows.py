"""The house as every tool sees it that follows imports as text: arrows that all go down."""

from tests.house.arrows import circle, floors, modules, rooms


def test_rooms_are_joined_by_arrows_that_go_down_and_no_modules_go_in_circles() -> None:
    files = modules()
    arrows = rooms(files)
    assert circle(files) == [] and circle(arrows) == []
    assert sum(map(len, arrows.values())) >= 200, "imports that can be followed"
    floor = floors(arrows)
    house = {"cache": 0, "protocols": 1, "engine": 2}
    assert {room.split("/")[0] for room in floor} == set(house)
    down = all(
        floor[other] < floor[room] and house[other.split("/")[0]] <= house[room.split("/")[0]]
        for room, others in arrows.items()
        for other in others
    )
    assert down
