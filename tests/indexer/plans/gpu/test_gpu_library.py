"""A library opened on a GPU, from adding to what a hit says."""

import json

import pytest
from naming import Naming

from nearsay.indexer import Library
from nearsay.indexer.plans import gpu_opening
from nearsay.indexer.plans.gpu import FaissGpus, Gpu
from nearsay.indexer.plans.plan import GpuKind, GpuMeasured, GpuPlan, GpuReport, Plan


@pytest.fixture
def opened(tmp_path, words, monkeypatch):
    """Opens the test's library on a device; a collection of 30 documents is in it."""
    monkeypatch.setattr(gpu_opening, "EXACT_UP_TO", 5)
    rows = [{"id": str(n), "text": "a" * (n + 1) + " bb"} for n in range(30)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    libraries = []

    def open_on(device):
        libraries.append(
            Library.open(tmp_path / "library", device=device, load_encoder=lambda _source: words)
        )
        return libraries[-1]

    open_on(None).collection("papers").add(file, index="now")
    yield open_on
    for library in libraries:
        library.close()


def test_the_device_that_answered_is_in_every_hit(gpu_faiss, opened):
    faiss = gpu_faiss(1)
    on_cpu = opened(None).collection("papers").search("aaaa bb", k=3)
    assert {hit.lineage.device for hit in on_cpu} == {"cpu"}
    assert faiss.searches == []
    on_gpu = opened("cuda").collection("papers").search("aaaa bb", k=3)
    assert {(hit.lineage.device, hit.lineage.plan) for hit in on_gpu} == {("cuda:0", "gpu-flat-fp16")}
    assert [(hit.id, hit.score) for hit in on_gpu] == [(hit.id, hit.score) for hit in on_cpu]
    assert faiss.searches != []


def test_what_is_removed_is_hidden_and_what_is_new_is_found_without_a_new_gpu_index(
    gpu_faiss, opened, tmp_path
):
    faiss = gpu_faiss(1)
    papers = opened("cuda").collection("papers")
    index = papers.snapshot().index
    assert papers.search("aaaa bb", k=1)[0].id == "3"
    papers.remove(["3"])
    file = tmp_path / "more.jsonl"
    file.write_text(json.dumps({"id": "new", "text": "aaaa bb"}), "utf-8")
    papers.add(file, index="now")
    assert papers.search("aaaa bb", k=1)[0].id == "new"
    assert papers.snapshot().index is index
    assert faiss.searches != []


def test_without_a_usable_gpu_the_hits_say_why_and_come_all_the_same(gpu_faiss, opened, monkeypatch):
    gpu_faiss(1)
    monkeypatch.setattr(gpu_opening, "find_gpus", lambda: FaissGpus((), "there is no driver"))
    hits = opened("cuda").collection("papers").search("aaaa bb", k=3)
    assert len(hits) == 3
    assert Naming("no driver", "CPU") in hits.notes
    assert {(hit.lineage.device, hit.lineage.plan) for hit in hits} == {("cpu", "exact")}


def test_a_gpu_index_that_cannot_be_made_is_tried_once_and_said_each_time(gpu_faiss, opened, tmp_path):
    faiss = gpu_faiss(1)
    faiss.rows_that_fit = 0
    papers = opened("cuda").collection("papers")
    said = papers.search("aaaa bb", k=3).notes
    assert any(note == Naming("no room", "CPU") for note in said)
    faiss.most_living = 0
    file = tmp_path / "more.jsonl"
    file.write_text(json.dumps({"id": "new", "text": "aaaa bb"}), "utf-8")
    papers.add(file, index="now")
    assert papers.search("aaaa bb", k=3).notes == said
    assert faiss.most_living == 0


def test_a_gpu_that_stops_while_searching_is_in_the_notes_and_the_lineage(gpu_faiss, opened):
    faiss = gpu_faiss(1)
    papers = opened("cuda").collection("papers")
    papers.search("aaaa bb", k=3)
    faiss.fails_at_search = "illegal access"
    hits = papers.search("aaaa bb", k=3)
    assert hits[0].id == "3"
    assert Naming("cuda:0", "(illegal access)", "CPU") in hits.notes
    assert {hit.lineage.device for hit in hits} == {"cpu"}


def test_a_plan_keeps_what_was_measured_on_gpus():
    plan = GpuPlan(GpuKind.IVF_FP16, 64, 8)
    report = GpuReport(plan, (GpuMeasured(plan, "cuda:0", 0.97, 0.96, 0.4, 2500.0, 1, 2.0, "taken"),))
    kept = json.loads(json.dumps(Plan(gpu=report).to_json()))
    assert Plan.from_json(kept).gpu == report
    assert Plan.from_json(Plan().to_json()).gpu is None
    assert Gpu(0).device == report.rows[0].device
