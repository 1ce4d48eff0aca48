"""An administrator's requests.

CREATE_TOPICS 0-7, DELETE_TOPICS 0-6, DELETE_RECORDS 0-2, ELECT_LEADERS 0-2, ALTER_CONFIGS 0-2, INCREMENTAL_ALTER_CONFIGS 0-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from epochaudit.kafka.field_values import SET
from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row, named_id
from epochaudit.sources.request_log.apis.joining import joined


class Config(Json):
    name: str
    value: str | None = None


class NewTopic(Json):
    name: str
    configs: list[Config] = []


class CreateRequest(Json):
    topics: list[NewTopic]
    validate_only: bool = False


class TopicAnswer(Json):
    error_code: Int32
    name: str | None = None
    topic_id: str | None = None


class CreateResponse(Json):
    topics: list[TopicAnswer]


CREATE_COLUMNS: Final = ("topic", "topic_id", "in_request", "in_response", "error_code", "name", "value")
_NOTHING_CREATED: Final[Row] = (None, None, False, False, None, None, None)


def create_topics(_: int, request: CreateRequest, response: CreateResponse | None) -> Iterable[Row]:
    """One row per configuration that the request sets for a topic; one with null name for a topic without.

    A request with validateOnly creates nothing, and gives one row without topic.
    """
    if request.validate_only:
        return [_NOTHING_CREATED]
    answers = () if response is None else response.topics
    found: list[Row] = []
    for topic, configs, answer in joined(
        ((topic.name, topic.configs) for topic in request.topics), ((answer.name, answer) for answer in answers)
    ):
        topic_id, code = (None, None) if answer is None else (named_id(answer.topic_id), answer.error_code)
        created = (topic, topic_id, configs is not None, answer is not None, code)
        found.extend((*created, config.name, config.value) for config in configs or ())
        if not configs:
            found.append((*created, None, None))
    return found or [_NOTHING_CREATED]


class DeletedTopic(Json):
    name: str | None = None
    topic_id: str | None = None


class DeleteRequest(Json):
    topics: list[DeletedTopic] = []
    topic_names: list[str] = []

    def requested_topics(self) -> Iterator[tuple[str | None, str | None]]:
        """(name, id) of each topic; one of them is None. Topics are named by id only from version 6 on."""
        for topic in self.topics:
            yield topic.name, named_id(topic.topic_id)
        for name in self.topic_names:
            yield name, None


class DeleteResponse(Json):
    responses: list[TopicAnswer]


DELETE_COLUMNS: Final = ("topic", "topic_id", "in_request", "in_response", "error_code")


def delete_topics(_: int, request: DeleteRequest, response: DeleteResponse | None) -> Iterable[Row]:
    """One row per topic, with name and id as far as the request or the response states them."""
    answers = [] if response is None else response.responses
    by_name = {answer.name: answer for answer in answers if answer.name is not None}
    by_id = {answer.topic_id: answer for answer in answers if named_id(answer.topic_id)}
    found: list[Row] = []
    for name, topic_id in request.requested_topics():
        answer = by_id.get(topic_id) if name is None else by_name.get(name)
        if answer is None:
            found.append((name, topic_id, True, False, None))
        else:
            found.append((name or answer.name, named_id(answer.topic_id) or topic_id, True, True, answer.error_code))
    return found or [(None, None, False, False, None)]


class RecordDeletion(Json):
    partition_index: Int32
    offset: Int64


class RecordDeletions(Json):
    name: str
    partitions: list[RecordDeletion]


class DeleteRecordsRequest(Json):
    topics: list[RecordDeletions]


class LowWatermark(Json):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int32


class LowWatermarks(Json):
    name: str
    partitions: list[LowWatermark]


class DeleteRecordsResponse(Json):
    topics: list[LowWatermarks]


DELETE_RECORDS_COLUMNS: Final = (
    "topic", "partition", "in_request", "in_response", "offset", "low_watermark", "error_code",
)  # fmt: skip


def delete_records(_: int, request: DeleteRecordsRequest, response: DeleteRecordsResponse | None) -> Iterable[Row]:
    """One row per partition."""
    topics = () if response is None else response.topics
    asked = (((t.name, p.partition_index), (p.offset,)) for t in request.topics for p in t.partitions)
    answered = (((t.name, p.partition_index), (p.low_watermark, p.error_code)) for t in topics for p in t.partitions)
    found = [
        (*key, question is not None, answer is not None, *(question or (None,)), *(answer or (None, None)))
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(None, None, False, False, None, None, None)]


class ElectedTopic(Json):
    topic: str
    partitions: list[Int32] = []
    partition_id: list[Int32] = []  # its name in 2.8


class ElectRequest(Json):
    topic_partitions: list[ElectedTopic] | None = None
    election_type: Int32 = 0


class ElectionResult(Json):
    partition_id: Int32
    error_code: Int32


class TopicResults(Json):
    topic: str
    partition_result: list[ElectionResult]


class ElectResponse(Json):
    replica_election_results: list[TopicResults]
    error_code: Int32 | None = None


ELECT_COLUMNS: Final = ("topic", "partition", "in_request", "in_response", "error_code", "name", "value")


def elect_leaders(_: int, request: ElectRequest, response: ElectResponse | None) -> Iterable[Row]:
    """One row per partition, name `electionType` and value 0 (preferred) or 1 (unclean)."""
    kind = ("electionType", str(request.election_type))
    requested_topics = request.topic_partitions or ()
    asked = (((t.topic, partition), True) for t in requested_topics for partition in t.partitions or t.partition_id)
    results = () if response is None else response.replica_election_results
    answered = (((t.topic, p.partition_id), (p.error_code,)) for t in results for p in t.partition_result)
    found = [
        (*key, question is not None, answer is not None, *(answer or (None,)), *kind)
        for key, question, answer in joined(asked, answered)
    ]
    return found or [(None, None, False, False, None, *kind)]


_TOPIC: Final = 2
_BROKER: Final = 4
_DIGITS: Final = 10  # of numbers that fit surely


class NewSetting(Json):
    name: str
    value: str | None = None
    config_operation: Int32 = 0


class Configured(Json):
    resource_type: Int32
    resource_name: str
    configs: list[NewSetting] = []


class ConfigureRequest(Json):
    resources: list[Configured]
    validate_only: bool = False


class ConfiguredAnswer(Json):
    error_code: Int32
    resource_type: Int32
    resource_name: str


class ConfigureResponse(Json):
    responses: list[ConfiguredAnswer]


CONFIGURE_COLUMNS: Final = ("topic", "broker_id", "in_request", "in_response", "error_code", "name", "value")


def alter_configs(_: int, request: ConfigureRequest, response: ConfigureResponse | None) -> Iterable[Row]:
    """One row per setting of a topic, or of one or all brokers; one with null name for a topic or broker without.

    The request replaces all settings: without any, it takes away those that there were.
    """
    return _configured(request, response, without_settings=((None, None),))


def incremental_alter_configs(_: int, request: ConfigureRequest, response: ConfigureResponse | None) -> Iterable[Row]:
    """One row per setting of a topic, or of one or all brokers; value is null if the setting is removed."""
    return _configured(request, response)


def _configured(
    request: ConfigureRequest, response: ConfigureResponse | None, without_settings: Iterable[Row] = ()
) -> Iterable[Row]:
    """without_settings: the (name, value) that a resource without settings gives. With validateOnly there is one row without setting."""
    answers = () if response is None else response.responses
    codes = {(answer.resource_type, answer.resource_name): answer.error_code for answer in answers}
    found: list[Row] = []
    for resource in () if request.validate_only else request.resources:
        if resource.resource_type not in (_TOPIC, _BROKER):
            continue
        is_topic, owner = resource.resource_type == _TOPIC, resource.resource_name
        code = codes.get((resource.resource_type, owner))
        broker = int(owner) if not is_topic and owner.isdecimal() and len(owner) < _DIGITS else None
        subject = (owner if is_topic else None, broker, True, code is not None, code)
        settings = [(s.name, s.value if s.config_operation == SET else None) for s in resource.configs]
        found.extend((*subject, *setting) for setting in settings or without_settings)
    return found or [(None, None, False, False, None, None, None)]


APIS: Final = (
    Api("CREATE_TOPICS", 7, Completed[CreateRequest, CreateResponse], CREATE_COLUMNS, create_topics),
    Api("DELETE_TOPICS", 6, Completed[DeleteRequest, DeleteResponse], DELETE_COLUMNS, delete_topics),
    Api(
        "DELETE_RECORDS",
        2,
        Completed[DeleteRecordsRequest, DeleteRecordsResponse],
        DELETE_RECORDS_COLUMNS,
        delete_records,
    ),
    Api("ELECT_LEADERS", 2, Completed[ElectRequest, ElectResponse], ELECT_COLUMNS, elect_leaders),
    Api("ALTER_CONFIGS", 2, Completed[ConfigureRequest, ConfigureResponse], CONFIGURE_COLUMNS, alter_configs),
    Api(
        "INCREMENTAL_ALTER_CONFIGS",
        1,
        Completed[ConfigureRequest, ConfigureResponse],
        CONFIGURE_COLUMNS,
        incremental_alter_configs,
    ),
)
