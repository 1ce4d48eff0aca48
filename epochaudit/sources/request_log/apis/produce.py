"""PRODUCE 0-13 has no rows: its lines are many and have no epoch. Its partitions and their error codes are counted."""

from __future__ import annotations

from collections.abc import Iterator

from epochaudit.sources.request_log.apis.envelope import Int32, Json


class Partition(Json):
    index: Int32


class Topic(Json):
    partition_data: list[Partition]


class Request(Json):
    topic_data: list[Topic]


class Answer(Json):
    error_code: Int32


class Answers(Json):
    partition_responses: list[Answer]


class Response(Json):
    responses: list[Answers]


class Produced(Json):
    """A completed Produce; with acks=0 the response is an empty string."""

    request: Request | str
    response: Response | str

    def partitions(self) -> int:
        """Partitions that the request lists."""
        return 0 if isinstance(self.request, str) else sum(len(t.partition_data) for t in self.request.topic_data)

    def error_codes(self) -> Iterator[int]:
        """The code of each partition that the response lists."""
        for topic in () if isinstance(self.response, str) else self.response.responses:
            for answer in topic.partition_responses:
                yield answer.error_code
