"""Texts are read from class files as compilers write them, patterns are compared with them, and the table has all patterns."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lab.statements.__main__ import RELEASES, missing
from lab.statements.check import Checked
from lab.statements.class_file import ClassFile
from lab.statements.patterns import Read, patterns
from lab.statements.program import Program
from lab.statements.table import PAGE, Table, key, read, rendered, with_release
from lab.statements.texts import VALUE, Choice, Text, printed, shown, statements
from lab.statements.wordings import Fit, Wording, begins
from tests.lab.class_files import Code, class_file

STRING = "(Ljava/lang/String;)Ljava/lang/StringBuilder;"
INT = "(I)Ljava/lang/StringBuilder;"
BUILDER = "java/lang/StringBuilder"
LOGGER = "org/slf4j/Logger"
ALOAD, ARETURN, RETURN, GOTO, AASTORE, BIPUSH, ACONST_NULL, ATHROW = 42, 176, 177, 167, 83, 16, 1, 191
NEW_BUILDER: Code = [("new", BUILDER), ("call", BUILDER, "<init>", "()V")]
TO_STRING: Code = [("call", BUILDER, "toString", "()Ljava/lang/String;")]


def append(text: str) -> Code:
    return [("ldc", text), ("call", BUILDER, "append", STRING)]


APPEND_VALUE: Code = [(ALOAD,), ("call", BUILDER, "append", INT)]


def texts_of(*code: tuple[object, ...]) -> list[str]:
    """What a method of these instructions writes: level, or `thrown`, and text."""
    found = statements(ClassFile(class_file("kafka/A", {"m": [*code, (RETURN,)]})))
    return [f"{'thrown' if one.thrown else one.level} {shown(one.text)}".strip() for one in found]


def test_a_constant_with_marks_is_the_message_and_other_constants_are_its_values() -> None:
    info = ("call", LOGGER, "info", "(Ljava/lang/String;Ljava/lang/Object;)V")
    assert texts_of(("ldc", "Truncating {} to {}"), (ALOAD,), info) == ["info Truncating {} to {}"]
    assert texts_of(("ldc", "It is {}"), ("ldc", "a"), (GOTO, 0, 0), ("ldc", "b"), info) == ["info It is {a|b}"]


def test_a_builder_joins_constants_values_characters_and_texts_within() -> None:
    inner = [*NEW_BUILDER, *append("in "), *APPEND_VALUE, *TO_STRING]
    comma: Code = [(BIPUSH, ord(",")), ("call", BUILDER, "append", "(C)Ljava/lang/StringBuilder;")]
    code = [
        *NEW_BUILDER,
        *append("Log "),
        *inner,
        ("call", BUILDER, "append", STRING),
        *comma,
        *append(" end"),
        *TO_STRING,
    ]
    assert texts_of(*code, (ARETURN,)) == ["Log in {}, end"]


def test_one_of_several_constants_is_a_choice() -> None:
    either: Code = [("ldc", "older"), (GOTO, 0, 0), ("ldc", "newer"), ("call", BUILDER, "append", STRING)]
    assert texts_of(*NEW_BUILDER, *append("an "), *either, *append(" epoch"), *TO_STRING) == ["an {older|newer} epoch"]


def test_the_recipe_of_java_9_has_a_mark_for_each_value() -> None:
    recipe = ("dynamic", "makeConcatWithConstants", ("from \x01 to \x02.", "the end"), "(I)Ljava/lang/String;")
    assert texts_of((ALOAD,), recipe) == ["from {} to the end."]


def test_an_interpolated_text_of_scala_2_12() -> None:
    context = "scala/StringContext"
    constants: Code = [step for text in ("at ", " from ", "") for step in (("ldc", text), (AASTORE,))]
    code: Code = [
        ("new", context), *constants, ("call", context, "<init>", "(Lscala/collection/Seq;)V"), (ALOAD,), (AASTORE,), (ALOAD,), (AASTORE,),
        ("call", context, "s", "(Lscala/collection/Seq;)Ljava/lang/String;"),
    ]  # fmt: skip
    assert texts_of(*code) == ["at {} from {}"]


def test_a_format_of_scala_keeps_its_text_over_checks_of_its_arguments() -> None:
    wrapped = ("call", "scala/Predef$", "augmentString", "(Ljava/lang/String;)Ljava/lang/String;")
    separator: Code = [("ldc", ","), (77,), (ACONST_NULL,), (ATHROW,), (ALOAD,)]
    formatted = ("call", "scala/collection/StringOps$", "format$extension", "(Ljava/lang/String;)Ljava/lang/String;")
    assert texts_of(("ldc", "from %s to %d"), wrapped, *separator, formatted)[-1] == "from {} to {}"


def test_the_message_of_an_exception_is_no_log_message() -> None:
    thrown = ("call", "kafka/SomeException", "<init>", "(Ljava/lang/String;)V")
    assert texts_of(("ldc", "The epoch is stale"), thrown) == ["thrown The epoch is stale"]


def test_a_function_that_scala_passes_to_a_logger_has_the_level() -> None:
    function = ("dynamic", "metafactory", ("kafka/A.anon$1",), "()Lscala/Function0;")
    warn = ("call", "kafka/A", "warn", "(Lscala/Function0;)V")
    code = {"m": [(ALOAD,), function, warn, (RETURN,)], "anon$1": [("ldc", "Stale epoch"), (ARETURN,)]}
    assert [(one.method, one.level) for one in statements(ClassFile(class_file("kafka/A", code)))] == [
        ("anon$1", "warn")
    ]


def test_what_classes_print() -> None:
    built = class_file(
        "kafka/Entry",
        {"toString": [*NEW_BUILDER, *append("Entry(epoch="), *APPEND_VALUE, *append(")"), *TO_STRING, (ARETURN,)]},
    )
    record = class_file(
        "kafka/Entry",
        {"toString": [("dynamic", "bootstrap", ("epoch;startOffset",), "()Ljava/lang/String;"), (ARETURN,)]},
    )
    assert [shown(text) for text in printed(ClassFile(built))] == ["Entry(epoch={})"]
    assert [shown(text) for text in printed(ClassFile(record))] == ["Entry[epoch={}, startOffset={}]"]


EITHER: Text = (Choice((("older",), ("newer",))),)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (rb"from \d+ to (?P<offset>-?\d+)\.", ("from ", VALUE, " to ", VALUE, "."), True),
        (rb"from \d+ to (?P<offset>-?\d+)", ("from ", VALUE, " to ", VALUE, "."), False),
        (rb"from [a-z]+ until \d+", ("from ", VALUE, " to ", VALUE), False),
        (rb"an (?:older|newer) epoch", ("an ", *EITHER, " epoch"), True),
        (rb"a newer epoch", ("a ", *EITHER, " epoch"), True),
        (rb"due to local high watermark \d+", ("due to ", VALUE), False),  # no value is prose
        (rb"in Set\(1, 2\) at a-0, b-1", ("in ", VALUE, " at ", VALUE), True),
        (rb"the (?P<a>\d+) and (?P=a)(?! more) .*end", ("the ", VALUE, " and ", VALUE, " is the end"), True),
        (rb"\[Partition a-0 broker=1\] ISR", ("ISR",), True),
        (rb"\[Broker id=1\] ISR", ("ISR",), False),
        (rb"new Entry\(epoch=\d+\)", ("new ", VALUE), True),
        (rb"new Entry\[epoch=\d+\]", ("new ", VALUE), False),  # the class prints it otherwise
        (rb"new Other\(epoch=\d+\)", ("new ", VALUE), True),
        (rb"new Absent\(epoch=\d+\)", ("new ", VALUE), False),
    ],
)  # fmt: skip
def test_a_pattern_fits_a_text_if_it_reads_some_message_of_it(pattern: bytes, text: Text, fits: bool) -> None:
    known: dict[str, list[Text] | None] = {"Entry": [("Entry(epoch=", VALUE, ")")], "Other": None}
    prefixes: list[Text] = [("[Partition ", VALUE, " broker=", VALUE, "] ")]
    assert Fit(Wording(pattern), lambda name: known.get(name, ()), prefixes).fits(text, "") is fits


def test_a_text_begins_as_decoders_look_for_it() -> None:
    assert begins(("Truncating ", VALUE, " to"), "Truncating ")
    assert begins(("[Broker id=1] Truncating",), "Truncating")
    assert begins((VALUE, " to offset"), "ConfigResource(type=TOPIC, ")
    assert not begins((VALUE, " to offset"), "Truncating log to ")
    assert begins((VALUE, ", raising"), "Fetch position ", [("Fetch position ", VALUE)])


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A release in which an object has the text that its class had, and the future log another text."""
    lambdas = ("dynamic", "metafactory", ("kafka/log/LogLoader$.anon",), "()Lscala/Function0;")
    text: Code = [*NEW_BUILDER, *append("Recovering unflushed segment "), *APPEND_VALUE, *TO_STRING, (ARETURN,)]
    call = ("call", "kafka/utils/Logging", "info", "(Lscala/Function0;)V")
    prefix: Code = [
        *NEW_BUILDER,
        *append("[LogLoader partition="),
        *APPEND_VALUE,
        *append(", dir="),
        *APPEND_VALUE,
        *append("] "),
        *TO_STRING,
    ]
    jar = tmp_path / "kafka.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("kafka/log/LogLoader.class", class_file("kafka/log/LogLoader", {"load": [(RETURN,)]}))
        archive.writestr(
            "kafka/log/LogLoader$.class",
            class_file(
                "kafka/log/LogLoader$",
                {
                    "load": [
                        *prefix,
                        ("call", "kafka/A", "logIdent_$eq", "(Ljava/lang/String;)V"),
                        lambdas,
                        call,
                        (RETURN,),
                    ],
                    "anon": text,
                },
                interfaces=["kafka/utils/Logging"],
            ),
        )
    return Program([jar])


def test_a_text_counts_for_the_class_that_logs_it(program: Program) -> None:
    wanted = [one for one in patterns() if one.logger in ("LogLoader", "LogLoader$")]
    checked = Checked(program, wanted)
    assert {one.logger for one, found in checked.read.items() if found} == {"LogLoader$"}


def test_texts_that_no_pattern_reads_are_listed(program: Program) -> None:
    assert Checked(program, []).unread("segment") == {}
    wanted = [one for one in patterns() if one.event_type == "LOG_RECOVERED"]
    assert Checked(program, wanted).unread("segment") == {}
    others = [one for one in patterns() if one.logger == "LogLoader$"]
    unread = Checked(program, [Read("LogLoader$", "Truncating to ", False, others[0].pattern)])
    assert unread.unread("unflushed") == {"LogLoader$": ["INFO Recovering unflushed segment {}"]}


def test_the_table_has_each_pattern_and_nothing_else() -> None:
    """If it fails: `python -m lab.statements --write`, which needs the network (docs/lab.md)."""
    assert {key(one) for one in patterns()} == set(read(PAGE.read_text("utf-8")).rows)


def test_each_text_has_a_release() -> None:
    table = read(PAGE.read_text("utf-8"))
    assert table.releases == list(RELEASES)
    written = {text for (_, text), versions in table.rows.items() if versions}
    assert [text for (_, text) in table.rows if text not in written] == []


def test_the_page_is_read_as_it_was_written() -> None:
    page = PAGE.read_text("utf-8")
    assert rendered(read(page)) == page


def test_a_release_is_added_and_compared_with_the_one_before() -> None:
    one, other = ("Log", "one"), ("Log", "other")
    table = Table(["1.0.0", "3.9.1"], {one: frozenset(["1.0.0", "3.9.1"]), other: frozenset(["1.0.0"])})
    assert missing("4.0.0", [other], table) == [one]
    assert missing("2.0.0", [one], table) == [other]
    more = with_release(table, "2.0.0", [one])
    assert more == Table(["1.0.0", "2.0.0", "3.9.1"], {**table.rows, one: frozenset(["1.0.0", "2.0.0", "3.9.1"])})
    assert read(rendered(more)) == more
