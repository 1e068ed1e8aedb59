"""Admission to a session, against a list that is looked through."""

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.sessions import SessionBook

OPS = st.lists(st.sampled_from(["join", "join", "start", "end", "widen", "narrow"]), max_size=60)


class Line:
    """A session as prose: who joined, in order, and what each is doing."""

    def __init__(self) -> None:
        self.max_concurrent = 1
        self.runs: list[str] = []  # "held", "admitted" or "started", in the order of joining

    def let_in(self) -> None:
        while "held" in self.runs and "admitted" not in self.runs and self.inside() < self.max_concurrent:
            self.runs[self.runs.index("held")] = "admitted"

    def inside(self) -> int:
        return len(self.runs) - self.runs.count("held")


def admit(book: SessionBook) -> None:
    while book.held and book.admits():
        book.admit_next()


@given(OPS)
def test_a_book_counts_what_the_line_shows(ops: list[str]) -> None:
    book, line = SessionBook(), Line()

    for op in ops:
        if op == "join":
            place = book.join()
            line.runs.append("held")
            line.let_in()
            assert (place is None) == (line.runs[-1] == "admitted")
        elif op == "start" and "admitted" in line.runs:
            book.unstarted = 0
            line.runs[line.runs.index("admitted")] = "started"
        elif op == "end" and "started" in line.runs:
            book.end(started=True)
            line.runs.remove("started")
        elif op in ("widen", "narrow"):
            book.max_concurrent = line.max_concurrent = max(1, line.max_concurrent + (1 if op == "widen" else -1))
        admit(book)
        line.let_in()
        assert (book.admitted, book.held) == (line.inside(), line.runs.count("held"))
        assert book.unstarted == line.runs.count("admitted")
        assert book.idle == (not line.runs)


def test_an_unstarted_run_that_ends_makes_way() -> None:
    book = SessionBook(max_concurrent=2)
    book.join()
    book.join()

    book.end(started=False)

    assert book.admits()
    assert (book.admitted, book.held) == (0, 1)


def test_a_run_that_brings_more_room_goes_behind_those_that_wait() -> None:
    book = SessionBook()
    book.join()
    book.unstarted = 0
    book.join()

    book.max_concurrent = 3

    assert book.join() == 2
    assert (book.admitted, book.held) == (1, 2)


def test_places_among_the_held_only_grow() -> None:
    book = SessionBook()
    places = [book.join() for _ in range(3)]
    book.unstarted = 0
    book.end(started=True)
    admit(book)

    assert [*places, book.join()] == [None, 1, 2, 3]
