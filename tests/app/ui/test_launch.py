"""How the page is served, and to whom."""

import errno
import json
import os
import socket
import tempfile

import free_port as ports
import pytest

from nearsay.app.ui.launch import Launch, free_port, launch
from nearsay.app.ui.settings import VARIABLE, Settings
from nearsay.data.errors import BadInputError, MissingExtraError

PUBLIC = "0.0.0.0"  # noqa: S104 - every address of this machine


def test_only_this_machine_is_listened_to_unless_told_otherwise():
    assert Launch().options()["server.address"] == "localhost"


def test_nothing_is_told_to_anybody():
    found = Launch().options()
    assert found["browser.gatherUsageStats"] is False
    assert found["client.showErrorDetails"] == "none"
    assert found["client.showErrorLinks"] is False


@pytest.mark.parametrize("address", [PUBLIC, "::", "192.168.1.4", "search.example.org"])
def test_a_page_that_others_reach_needs_a_password_or_only_reads(address):
    with pytest.raises(BadInputError, match="--password"):
        Launch(address)
    Launch(address, settings=Settings(read_only=True))
    Launch(address, password="hash")


@pytest.mark.parametrize(
    "host", ["search.example.org", "192.168.1.4", "search.example.org:8443", "[2001:db8::1]"]
)
def test_a_page_behind_a_proxy_is_one_that_others_reach(host):
    with pytest.raises(BadInputError, match=r"search|192|2001"):
        Launch(hosts=(host,))
    behind = Launch(hosts=(host,), password="hash")
    assert not behind.is_local
    assert not passed_on(behind).server_files


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.0.0.2", "::1"])
@pytest.mark.parametrize("hosts", [(), ("notes.localhost", "127.0.0.1:8501", "[::1]")])
def test_this_machine_needs_neither(address, hosts):
    assert Launch(address, hosts=hosts).is_local


@pytest.mark.parametrize("host", ["", "http://search.example.org", "search.example.org/notes", "*", "a b"])
def test_a_host_that_is_no_name_is_refused(host):
    with pytest.raises(BadInputError, match=r"--host search\.example\.org"):
        Launch(hosts=(host,), password="hash")


def test_another_name_for_this_machine_is_not_answered():
    assert Launch().access().names == ("localhost", "127.0.0.1", "::1")
    named = Launch("192.168.1.4", hosts=("Search.Example.Org:8443",), password="hash").access().names
    assert {"192.168.1.4", "search.example.org"} < set(named)


def test_at_every_address_only_the_machines_own_names_are_answered(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Quiet.example.org")
    names = Launch(PUBLIC, settings=Settings(read_only=True)).access().names
    assert names == ("localhost", "127.0.0.1", "::1", "quiet.example.org", "quiet", "quiet.local")


def test_only_a_page_of_this_machine_that_asks_for_no_password_has_a_token():
    alone = Launch()
    assert alone.access().token == alone.token
    assert Launch().token != alone.token
    for other in (Launch(password="hash"), Launch(PUBLIC, settings=Settings(read_only=True))):
        assert (other.access().token, other.access().ticket) == (None, None)


def test_the_browser_is_opened_with_what_is_good_once_since_others_see_its_command_line():
    alone = Launch(port=8600)
    assert alone.handed_over()["open"] == f"http://localhost:8600/?token={alone.ticket}"
    assert alone.ticket != alone.token
    assert Launch(port=8600, password="hash").handed_over()["open"] == "http://localhost:8600"
    shut = Launch(port=8600, browser=False)
    assert shut.handed_over()["open"] is None
    assert shut.access().ticket is None


def test_streamlit_offers_nobody_to_install_anything():
    assert Launch().options()["logger.hideWelcomeMessage"] is True


@pytest.fixture
def taken():
    """A port of this machine at which somebody listens."""
    with socket.create_server(("127.0.0.1", ports.free_port())) as listening:
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_is_refused_with_the_way_out(taken):
    with pytest.raises(BadInputError, match=rf"port {taken} is in use.*--port"):
        free_port("127.0.0.1", taken)


def test_without_a_wanted_port_the_next_that_is_free_is_taken(taken, monkeypatch):
    monkeypatch.setattr("nearsay.app.ui.launch._FIRST_PORT", taken)
    port = free_port("127.0.0.1")
    assert taken < port < taken + 100
    with socket.create_server(("127.0.0.1", port)):
        assert free_port("127.0.0.1") > port
    monkeypatch.setattr("nearsay.app.ui.launch._TRIED", 1)
    with pytest.raises(BadInputError, match=r"all in use"):
        free_port("127.0.0.1")


@pytest.mark.parametrize("address", ["192.0.2.7", "a..b", "fe80::1"])
def test_an_address_of_another_machine_is_refused(address):
    with pytest.raises(BadInputError, match=f"'{address}' is not an address"):
        free_port(address)


def test_a_name_that_nobody_knows_is_refused(monkeypatch):
    def ask(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    with pytest.raises(BadInputError, match=r"'no\.such\.name' is not an address"):
        free_port("no.such.name")


@pytest.fixture
def launched(monkeypatch, tmp_path):
    """The ports of the servers that were begun; this process stays what it is."""
    ports = []

    def become(program, command, environment):
        with os.fdopen(int(command[-1])) as pipe:
            handed = json.load(pipe)
        token = handed["access"]["token"]
        assert not any(token in part for part in [*command, *environment.values()])
        ports.append(handed["options"]["server.port"])

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return ports


def test_two_that_start_at_once_take_two_ports(launched):
    launch(Launch())
    launch(Launch())
    first, second = launched
    assert first < second
    with pytest.raises(BadInputError, match=f"port {first} is in use"):
        launch(Launch(port=first))


def test_where_no_file_can_be_kept_a_port_is_taken_all_the_same(launched, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    launch(Launch())
    assert launched


def test_what_no_page_could_use_is_refused_at_the_start(launched, tmp_path):
    file = tmp_path / "papers.csv"
    file.write_text("text\n")
    for settings, said in (
        (Settings(str(file)), "papers.csv is not a folder"),
        (Settings(str(tmp_path / "none"), read_only=True), "there is no library in .* omit --read-only"),
        (Settings(str(tmp_path / ("long" * 100))), "cannot be read .* Choose another folder with --library"),
        (Settings(str(tmp_path), device="banana"), "there is no device 'banana'"),
    ):
        with pytest.raises(BadInputError, match=said):
            launch(Launch(settings=settings))
    assert not launched


def test_a_name_is_listened_to_at_those_of_its_addresses_that_this_machine_has(monkeypatch):
    usual = socket.getaddrinfo

    def with_another(host, port, **options):
        return usual("192.0.2.7", port, **options) + usual("127.0.0.1", port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", with_another)
    assert free_port("a.name.of.both") >= 8501


def test_a_port_of_the_systems_own_is_refused_to_who_may_not(monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("nearsay.app.ui.launch._try_to_listen", refuse)
    with pytest.raises(BadInputError, match=r"port 80\b.*1024"):
        free_port("localhost", 80)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("localhost", "http://localhost:8600"),
        ("::1", "http://[::1]:8600"),
        (PUBLIC, "http://localhost:8600"),
    ],
)
def test_the_address_that_is_told_can_be_opened(address, url):
    assert Launch(address, 8600, settings=Settings(read_only=True)).url == url


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(BadInputError, match=r"not a valid port"):
        Launch(port=port)


def test_no_secret_of_the_door_stands_in_the_environment():
    behind = Launch(password="hash-of-it", settings=Settings(database="postgresql://ada:secret@db/papers"))
    found = behind.environment({"NEARSAY_UI_PASSWORD": "a quiet harbour", "HOME": "/home/ada"})
    assert "NEARSAY_UI_PASSWORD" not in found
    for secret in ("hash-of-it", behind.token, behind.ticket, "a quiet harbour"):
        assert not any(secret in value for value in found.values())
    assert "secret" in found[VARIABLE]  # other users cannot read it, and no job inherits it
    assert "hash-of-it" in json.dumps(behind.handed_over())


def test_settings_come_through_the_environment_as_they_were():
    settings = Settings(
        "papers", None, "cpu", "float32", read_only=True, with_password=True, largest_upload=7
    )
    assert Settings.from_environment(settings.to_environment()) == settings
    assert Settings.from_environment({}) == Settings()


def test_settings_of_streamlit_in_the_environment_do_not_reach_in():
    given = {"STREAMLIT_SERVER_ADDRESS": PUBLIC, "HOME": "/home/ada", "NEARSAY_CONFIG": "mine.toml"}
    found = Launch().environment(given)
    assert found["NEARSAY_CONFIG"] == os.devnull  # what a form leaves out is the command's own default
    assert set(found) == {"HOME", VARIABLE, "FORWARDED_ALLOW_IPS", "NEARSAY_CONFIG"}


def test_only_a_proxy_that_was_named_is_believed_whom_it_passes_on():
    assert Launch().environment({})["FORWARDED_ALLOW_IPS"] == ""
    assert "FORWARDED_ALLOW_IPS" not in Launch(hosts=("docs.example.org",), password="hash").environment({})


def test_an_upload_limit_below_a_megabyte_is_refused():
    with pytest.raises(BadInputError, match="Allow at least 1"):
        Settings(largest_upload=0)


def test_without_streamlit_the_line_that_installs_it_is_said(monkeypatch):
    monkeypatch.setattr("nearsay.app.ui.launch.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nearsay\[ui\]'"):
        launch(Launch())


def passed_on(launch: Launch) -> Settings:
    return Settings.from_environment(launch.environment({}))


def test_files_of_the_machine_are_named_only_by_who_sits_at_it_unless_allowed():
    assert passed_on(Launch()).server_files
    assert not passed_on(Launch(server_files=False)).server_files
    assert not passed_on(Launch("192.168.1.4", password="hash")).server_files
    assert passed_on(Launch("192.168.1.4", password="hash", server_files=True)).server_files


def test_visitors_can_sign_out_where_they_signed_in_with_a_password():
    assert passed_on(Launch(password="hash")).with_password
    assert not passed_on(Launch()).with_password
