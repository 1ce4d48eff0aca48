"""No secret leaves the host, whatever it stands in; and the places of what does leave stay true."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochaudit.collecting.metadata import MetadataLog
from epochaudit.collecting.secrets import Log, log_pieces, properties
from epochaudit.sources.metadata_log.segment import entries
from tests.sources.batch_writer import batch, metadata

SECRET = "hunter2Zq9"
DATED = "[2026-11-21 04:08:12,049] INFO "
ALTERED = f"{DATED}Completed request:RequestHeader(apiKey=%s) -- {{resources=[{{resource_type=4,resource_name=1,"
SENSITIVE = (
    "sasl.jaas.config",
    "listener.name.internal.scram-sha-256.sasl.jaas.config",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.truststore.location",
    "metric.reporter.api.token",
    "confluent.license",
    "principal.builder.class",
    "my.own-setting_1",
)
HARMLESS = (
    "node.id=1",
    "log.dirs=/data/a,/data/b",
    "listeners=PLAINTEXT://0.0.0.0:9092",
    "zookeeper.connect=a:2181,b:2181/k",
)


def redacted(text: str) -> str:
    """As a log of it is collected; as long as it was."""
    collected = b"".join(log_pieces(BytesIO(text.encode()), Log()))
    assert len(collected) == len(text.encode())
    assert collected.count(b"\n") == text.count("\n")
    return collected.decode()


@st.composite
def properties_files(draw: st.DrawFn) -> str:
    """A server.properties with secrets in values, comments, further lines of a value, and after any separator."""
    planted = st.sampled_from(
        [
            "{key}={secret}",
            "{key} = {secret}",
            "{key}:{secret}",
            "{key} {secret}",
            "  {key}\t=\t{secret}  ",
            "#{key}={secret}",
            "! was {secret}",
            '{key}=a required \\\n  username="u" \\\n  password="{secret}";',
            "node.id=\\\n{secret}",
            "listeners=SASL_SSL://u:{secret}@h:9092",
            "controller.quorum.voters=1@h:9093 # {secret}",
            "broker.rack=a {secret}",
            "{key}\\={secret}",
            "min.insync.replicas={secret}",
        ]
    )
    lines = draw(st.lists(st.one_of(st.sampled_from(HARMLESS), planted), min_size=1, max_size=12))
    key = draw(st.sampled_from(SENSITIVE))
    return draw(st.sampled_from(["\n", "\r\n"])).join(line.format(key=key, secret=SECRET) for line in lines)


@given(properties_files())
def test_no_secret_of_a_properties_file_is_collected_and_lines_stay_where_they_are(text: str) -> None:
    collected, _ = properties(text.encode())
    assert SECRET.encode() not in collected
    assert [len(line) for line in collected.splitlines(True)] == [len(line) for line in text.encode().splitlines(True)]


@given(st.permutations(HARMLESS))
def test_settings_that_an_audit_reads_are_collected(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    assert properties(text) == (text, 0)


@st.composite
def dumps(draw: st.DrawFn) -> str:
    """A dump of settings as Kafka prints it, as containers wrap it, or as JSON; with secrets that Kafka does not hide."""
    value = st.sampled_from(
        [SECRET, f'a required password="{SECRET}";', f"x\n{SECRET}\n  y", f"{SECRET}, {SECRET}", f"[{SECRET}]"]
    )
    settings = draw(st.lists(st.tuples(st.sampled_from(SENSITIVE), value), min_size=1, max_size=6))
    body = "".join(f"\t{key} = {printed}\n" for key, printed in [*settings, ("node.id", "1")])
    name = draw(st.sampled_from(["KafkaConfig", "AbstractConfig", "ConsumerConfig", "MyPluginConfig"]))
    dump = f"{DATED}{name} values: \n{body} (kafka.server.{name})\n"
    layout = draw(st.sampled_from(["stock", "headless", "cri", "docker", "json"]))
    if layout == "headless":  # a log that was rotated within it
        return dump.partition("\n")[2]
    if layout == "cri":
        return "".join(f"2026-11-21T09:00:00.1Z stdout F {line}\n" for line in dump.splitlines())
    escaped = dump.replace('"', '\\"').replace("\t", "\\t")
    if layout == "docker":
        return "".join(f'{{"log":"{line}\\n","stream":"stdout"}}\n' for line in escaped.splitlines())
    if layout == "json":
        message = escaped.replace("\n", "\\n")
        return f'{{"@timestamp":"2026-11-21T09:00:00.1Z","level":"INFO","message":"{message}","logger":"k"}}\n'
    return dump


@given(dumps())
def test_no_secret_of_a_dump_of_settings_is_collected(text: str) -> None:
    before, after = f"{DATED}starting (kafka.server.KafkaServer)\n", f"{DATED}started (kafka.server.KafkaServer)\n"
    headless = text.startswith("\t")
    collected = redacted(("" if headless else before) + text + after)
    assert SECRET not in collected
    assert collected.startswith("" if headless else before)
    assert collected.endswith(after)
    assert re.search(r"node\.id = 1\b", collected)


@pytest.mark.parametrize(
    "line",
    [
        f"{DATED}JVM args: -Djavax.net.ssl.keyStorePassword={SECRET} (kafka.Kafka$)",
        f"{DATED}Connecting to http://admin:{SECRET}@metrics:80/ (com.example.Reporter)",
        f"{DATED}Reading license, api.key: '{SECRET}' (com.example.Reporter)",
        f'{DATED}Login PlainLoginModule required username="a" password="{SECRET}"; (com.example.Login)',
        f'{DATED}Completed request:{{"requestApiKeyName":"ALTER_USER_SCRAM_CREDENTIALS","saltedPassword":"{SECRET}"}}',
        f'{DATED}Completed request:{{"requestApiKeyName":"CREATE_DELEGATION_TOKEN","hmac":"{SECRET}","a":1}}',
        f'{DATED}Completed request:{{"requestApiKeyName":"ALTER_CONFIGS","configs":[{{"name":"x","value":"{SECRET}"}}]}}',
        f"{DATED}Completed request:RequestHeader(apiKey=ALTER_CONFIGS) -- {{config_name=x,config_value={SECRET}}}",
        f"{ALTERED % 'INCREMENTAL_ALTER_CONFIGS'}configs=[{{name=a,config_operation=0,value={SECRET}}}]}}],validate_only=false}}",
        f"{ALTERED % 'INCREMENTAL_ALTER_CONFIGS'}configs=[{{name=a,config_operation=0,value=1,_tagged_fields={{}}}},"
        f"{{name=b,config_operation=0,value={SECRET},_tagged_fields={{}}}}],_tagged_fields={{}}}}],validate_only=false}}",
        f"{ALTERED % 'ALTER_CONFIGS'}configs=[{{name=a,value={SECRET}}}]}}],validate_only=false}}",
        f"{ALTERED % 'ALTER_CONFIGS'}config_entries=[{{config_name=a,config_value=}},{SECRET}]}},{{config_name=b,config_value=1}}]}}]}}",
        f"{ALTERED % 'ALTER_CONFIGS'}config_entries=[{{config_name=a,config_value=a line that is cut off after {SECRET}",
        f'{DATED}Completed request:{{"requestApiKeyName":"ENVELOPE"}},"request":{{"requestData":"{SECRET}+/=","requestPrincipal":null}}}}',
        f'{DATED}Completed request:{{"requestApiKeyName":"ENVELOPE"}},"request":{{"requestPrincipal":"{SECRET}"}},"response":""}}',
        f'{DATED}Completed request:{{"requestApiKeyName":"ENVELOPE"}},"response":{{"responseData":"{SECRET}","errorCode":31}}}}',
        f"| offset: 0 CreateTime: 1 keySize: 1 valueSize: 9 sequence: -1 headerKeys: [] key: k payload: {SECRET}",
        f"| offset: 0 CreateTime: 1 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [{SECRET}]",
        f"| offset: 0 CreateTime: 1 keySize: 4 valueSize: 9 sequence: 0 headerKeys: [] payload: {SECRET}"
        " endTxnMarker: ABORT coordinatorEpoch: 5",
        f'payload: {{"type":"CONFIG_RECORD","version":0,"data":{{"resourceType":4,"name":"x","value":"{SECRET}"}}}}',
    ],
)
def test_no_secret_of_a_line_is_collected(line: str) -> None:
    collected = redacted(line + "\n")
    assert SECRET not in collected
    assert collected.startswith(line[:40])


@pytest.mark.parametrize(
    "line",
    [
        f'{DATED}Completed request:{{"requestHeader":{{"requestApiKey":1,"clientId":"token-secret"}},"name":"password"}}',
        f"{DATED}Completed request:RequestHeader(apiKey=FETCH, clientId=secret) -- {{topic=ssl.events,partition=0,api_key=1}}",
        f"{DATED}[Broker id=1] Leader password-resets-0 starts at leader epoch 3 from offset 30 (state.change.logger)",
        f"{DATED}Truncating secret-0 to offset 10 (kafka.log.Log)",
        "\tat kafka.Kafka$.main(Kafka.scala:109)",
        "| offset: 9 CreateTime: 1 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 5",
        'payload: {"type":"CONFIG_RECORD","data":{"name":"unclean.leader.election.enable","value":"true"}}',
    ],
)
def test_what_names_no_secret_is_collected_as_it_is(line: str) -> None:
    assert redacted(line + "\n") == line + "\n"


def test_what_stands_beside_an_altered_setting_is_collected_as_it_is() -> None:
    settings = "{name=unclean.leader.election.enable,config_operation=0,value=%s},{name=x,config_operation=0,value=%s}"
    answered = (
        "],validate_only=false},response:{throttle_time_ms=0} from connection 10.0.0.1:9092 (kafka.request.logger)\n"
    )
    line = f"{ALTERED % 'INCREMENTAL_ALTER_CONFIGS'}configs=[{settings}]}}{answered}"
    assert redacted(line % ("true", "}{")) == line % ("true", "**")


def test_no_password_of_a_metadata_log_is_collected_and_its_records_stay_what_they_are() -> None:
    values = [
        metadata("CONFIG_RECORD", resourceType=4, resourceName="1", name="ssl.key.password", value=SECRET),
        metadata(
            "CONFIG_RECORD", resourceType=2, resourceName="t", name="unclean.leader.election.enable", value="true"
        ),
        bytes([1, 11, 0]) + SECRET.encode(),  # a credential
        metadata("NO_OP_RECORD"),
    ]
    segment = batch(0, *values) + batch(4, metadata("NO_OP_RECORD")) + SECRET.encode()
    log = MetadataLog()
    collected = b"".join(log.pieces(BytesIO(segment), BytesIO(segment)))
    assert len(collected) == len(segment)
    assert SECRET.encode() not in collected
    assert (log.masked, log.damaged) == (2, len(SECRET))
    before, after = (list(entries(BytesIO(data))) for data in (segment, collected))
    assert [(e.byte_offset, e.fault, e.content and e.content.type) for e in before if e.record] == [
        (e.byte_offset, e.fault, e.content and e.content.type) for e in after if e.record
    ]
    settings = [e.content.fields["value"] for e in after if e.content and e.content.type == "CONFIG_RECORD"]
    assert settings == ["*" * len(SECRET), "true"]
