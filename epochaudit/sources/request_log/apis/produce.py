"""PRODUCE 0-13: what a leader answered to producers. `acknowledged_runs` makes rows of it."""

from __future__ import annotations

from typing import Any, Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id


class Partition(Json):
    index: Int32


class Topic(Json):
    partition_data: list[Partition]


class Request(Json):
    acks: Int32
    topic_data: list[Topic]
    transactional_id: str | None = None


class Answer(Json):
    index: Int32
    error_code: Int32
    base_offset: Int64
    log_start_offset: Int64 | None = None


class Answers(Json):
    partition_responses: list[Answer]
    name: str | None = None
    topic_id: str | None = None


class Response(Json):
    responses: list[Answers]


class Printed(Json):
    """A request as text (ProduceRequest.toString, up to 2.7): the number of partitions or, if the logger is at TRACE, their sizes.

    It states no transactional id.
    """

    acks: Int32
    num_partitions: Int32 | None = None
    partition_sizes: str | None = None


ANSWERED: Final = (
    "error_code", "topic", "topic_id", "partition", "acks", "transactional_id", "base_offset", "log_start_offset",
)  # fmt: skip
NO_ANSWER: Final = (None,) * len(ANSWERED)
MOST_PARTITIONS: Final = 1 << 20
"""More partitions than a broker leads. Only a garbled line as text states more: it prints their number, not each of them."""


def fits(answer: tuple[Any, ...]) -> bool:
    """Whether the columns ANSWERED can hold the numbers of a row: text states them without a type."""
    error_code, _, _, partition, acks, _, *offsets = answer
    return answer is NO_ANSWER or (
        all(-(1 << 31) <= number < 1 << 31 for number in (error_code, partition, acks))
        and all(offset is None or -(1 << 63) <= offset < 1 << 63 for offset in offsets)
    )


def rows(_: int, request: Request, response: Response | None) -> list[Row]:
    """One row per answered partition, in the columns ANSWERED; without a response one of nulls per requested partition."""
    if response is None:
        return [NO_ANSWER for topic in request.topic_data for _ in topic.partition_data]
    acks, transactional_id = request.acks, request.transactional_id
    return [
        (p.error_code, topic.name, topic_id, p.index, acks, transactional_id, p.base_offset, p.log_start_offset)
        for topic in response.responses
        for topic_id in (named_id(topic.topic_id),)
        for p in topic.partition_responses
    ]


def printed_rows(_: int, request: Printed, response: Response | None) -> list[Row]:
    """As `rows`, of a request as text; at most one row more than MOST_PARTITIONS."""
    if response is not None:
        return rows(_, Request(request.acks, []), response)
    sizes = (request.partition_sizes or "[]")[1:-1]
    partitions = sizes.count(",") + bool(sizes) if request.num_partitions is None else request.num_partitions
    return [NO_ANSWER] * min(partitions, MOST_PARTITIONS + 1)


API: Final = Api("PRODUCE", 13, Completed[Request, Response], ANSWERED, rows)
PRINTED: Final = Api("PRODUCE", 8, Completed[Printed, Response], ANSWERED, printed_rows)
