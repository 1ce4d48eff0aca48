"""The light settings of the request log: which lines they let through, and that an audit knows of the others."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

import pytest

from epochaudit.sources import node_log
from tests.conftest import CAPTURES
from tests.light_settings import LOG4J, LOG4J2, LOG4J_TEXT, SETTINGS, as_light, chain, is_logged
from tests.sources.decoding import decode

OF_CONTROLLERS = (
    "LEADER_AND_ISR",
    "STOP_REPLICA",
    "UPDATE_METADATA",
    "ALTER_PARTITION",
    "CONTROLLED_SHUTDOWN",
    "ELECT_LEADERS",
)
ASKED = (
    "LIST_OFFSETS",
    "OFFSET_FOR_LEADER_EPOCH",
    "OFFSET_COMMIT",
    "OFFSET_FETCH",
    "METADATA",
    "CREATE_TOPICS",
    "DELETE_TOPICS",
)


def json(api: str, request: str = "", response: str = '"errorCode":0', number: int = 10) -> str:
    header = (
        f'"requestHeader":{{"requestApiKey":1,"correlationId":{number},"clientId":"c","requestApiKeyName":"{api}"}}'
    )
    return f'Completed request:{{"isForwarded":false,{header},"request":{{{request}}},"response":{{{response}}},"connection":"a"}}'


def text(api: str, request: str = "", response: str = "error_code=0", number: int = 10) -> str:
    header = f"RequestHeader(apiKey={api}, apiVersion=11, clientId=c, correlationId={number})"
    return f"Completed request:{header} -- {{{request}}},response:{{{response}}} from connection a"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("api", [*OF_CONTROLLERS, *ASKED])
def test_requests_of_controllers_and_queries_are_logged(name: str, api: str) -> None:
    assert is_logged((text if "text" in name else json)(api), chain(name))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("api", ["FETCH", "PRODUCE", "HEARTBEAT", "API_VERSIONS", "JOIN_GROUP"])
def test_the_mass_is_left_out_unless_refused(name: str, api: str) -> None:
    line, refused = (text, "error_code=74") if "text" in name else (json, '"errorCode":74')
    assert not is_logged(line(api), chain(name))
    assert is_logged(line(api, response=refused), chain(name))


@pytest.mark.parametrize("name", SETTINGS[:2])
def test_an_error_of_a_partition_beside_that_of_the_request_is_logged(name: str) -> None:
    answer = (
        '"errorCode":0,"resultsByTransaction":[{"topicResults":[{"resultsByPartition":[{"partitionErrorCode":%d}]}]}]'
    )
    assert is_logged(json("ADD_PARTITIONS_TO_TXN", response=answer % 47), chain(name))
    assert is_logged(json("ADD_PARTITIONS_TO_TXN", response=answer % -1), chain(name))
    assert not is_logged(json("ADD_PARTITIONS_TO_TXN", response=answer % 0), chain(name))


@pytest.mark.parametrize("api", ["SHARE_FETCH", "SHARE_ACKNOWLEDGE"])
def test_of_share_sessions_only_what_is_refused_is_logged(api: str) -> None:
    """Their answers name the leader of each partition, changed or not."""
    request = '"groupId":"g","shareSessionEpoch":0,"topics":[{"topicId":"x"}]'
    answer = (
        '"errorCode":0,"responses":[{"partitions":[{"errorCode":%d,%s"currentLeader":{"leaderId":0,"leaderEpoch":0}}]}]'
    )
    filters = chain(LOG4J2)
    assert not is_logged(json(api, request, answer % (0, "")), filters)
    assert not is_logged(json(api, request, '"errorCode":0,"responses":[]'), filters)
    assert is_logged(json(api, request, answer % (6, "")), filters)
    assert is_logged(json(api, request, answer % (0, '"acknowledgeErrorCode":121,')), filters)


@pytest.mark.parametrize("name", SETTINGS[:2])
def test_fetches_that_tell_something_are_logged(name: str) -> None:
    calm = (
        '"sessionId":7,"sessionEpoch":12,"topics":[{"topicId":"x"}],"forgottenTopicsData":[]',
        '"responses":[{"errorCode":0}]',
    )
    filters = chain(name)
    assert not is_logged(json("FETCH", *calm), filters)
    assert is_logged(json("FETCH", '"sessionId":0,"sessionEpoch":0,"topics":[]', calm[1]), filters)
    assert is_logged(json("FETCH", calm[0], '"responses":[{"errorCode":0,"divergingEpoch":{"epoch":3}}]'), filters)
    assert is_logged(json("FETCH", calm[0], '"responses":[{"errorCode":0,"currentLeader":{"leaderId":3}}]'), filters)
    assert is_logged(json("FETCH", calm[0], '"responses":[]'), filters)  # it waits where the log ends
    assert not is_logged(
        json("FETCH", '"sessionEpoch":13,"topics":[],"forgottenTopicsData":[]', '"responses":[]'), filters
    )
    other_topic = calm[0].replace('Data":[]', 'Data":[{"topicId":"x","partitions":[0]}]')  # of the name, created again
    assert is_logged(json("FETCH", other_topic, calm[1]), filters)
    quorum = '"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"'  # each answer of the metadata quorum names its leader
    assert not is_logged(json("FETCH", quorum, '"currentLeader":{"leaderId":3}'), filters)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_connection_without_sessions_is_logged_as_it_begins(name: str) -> None:
    """Clients that number the requests of each connection anew: librdkafka, kafka-python, sarama."""
    line, filters = text if "text" in name else json, chain(name)
    assert [number for number in range(1, 300) if is_logged(line("FETCH", number=number), filters)] == [*range(1, 10)]
    assert not is_logged(line("PRODUCE", number=2), filters)
    assert not is_logged(line("API_VERSIONS", number=1), filters)  # the longest of calm answers


@pytest.mark.parametrize("name", SETTINGS[:2])
def test_of_the_quorum_elections_are_logged_and_not_that_its_leader_still_leads(name: str) -> None:
    filters = chain(name)
    assert is_logged(json("VOTE"), filters)
    assert not is_logged(json("BEGIN_QUORUM_EPOCH"), filters)
    assert is_logged(json("BEGIN_QUORUM_EPOCH", response='"errorCode":74'), filters)


@pytest.mark.parametrize("name", SETTINGS[:2])
@pytest.mark.parametrize(
    "state", ['"wantFence":true', '"wantShutDown":true', '"isFenced":true', '"shouldShutDown":true']
)
def test_heartbeats_are_logged_while_a_broker_is_fenced_or_shuts_down(name: str, state: str) -> None:
    assert is_logged(json("BROKER_HEARTBEAT", state), chain(name))
    assert not is_logged(json("BROKER_HEARTBEAT", state.replace("true", "false")), chain(name))


def test_a_client_cannot_choose_what_is_logged_of_it() -> None:
    forged = r'"clientId":"\"requestApiKeyName\":\"FETCH\""'
    assert is_logged(json("STOP_REPLICA").replace('"clientId":"c"', forged), chain(LOG4J2))


def requests(name: str) -> Iterator[str]:
    """The request logs' lines of a recorded capture."""
    with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
        for member in archive:
            if member.name.endswith("kafka-request.log") and (opened := archive.extractfile(member)):
                yield from opened.read().decode(errors="replace").splitlines()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("zk-unclean-truncation-3.9", LOG4J),
        ("kraft-k1-healthy", LOG4J2),
        ("zk-unclean-truncation-2.0", LOG4J_TEXT),
    ],
)
def test_recorded_lines_are_read_as_before_and_say_that_others_are_missing(name: str, settings: str) -> None:
    filters = chain(settings)
    lines = [line for line in requests(name) if is_logged(line, filters)]
    light = decode(node_log, *(as_light(line) for line in lines))
    full = decode(node_log, *lines)
    assert light.outcomes == full.outcomes
    filtered = [event for event in light.events if event["event_type"] == "REQUEST_LOG_FILTERED"]
    assert [event["name"] for event in filtered] == ["light"]
    assert len(light.events) == len(full.events) + 1
    assert not [event for event in full.events if event["event_type"] == "REQUEST_LOG_FILTERED"]
