from pathlib import Path

import pytest

from simulator.specs.errors import SpecError
from sweeps.file import SweepFile, load_sweep

MINIMAL = """
[target]
config = "deepseek-v3"
[data]
sources = [{ kind = "sympy" }]
"""


def load(folder: Path, text: str) -> SweepFile:
    path = folder / "SWEEP.toml"
    path.write_text(text)
    return load_sweep(path)


def refused(folder: Path, text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        load(folder, text)
    return caught.value


def test_a_minimal_file_gets_every_default(tmp_path: Path) -> None:
    file = load(tmp_path, MINIMAL)
    assert file.proxy.width_factor == 8
    assert file.proxy.ranks == "scale"
    assert (file.parametrisation.kind, file.parametrisation.anchor) == ("sp_fullalign", "proxy")
    assert (file.space.peak_lr.octaves, file.space.peak_lr.centre) == (6.0, None)
    assert file.space.tau.factors == (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    assert file.space.warmup_ratio == (0.02, 0.06, 0.2)
    assert file.space.schedule == (
        "linear_to_zero",
        "wsd20_sqrt",
        "cosine_to_10pct",
        "target_published",
    )
    assert (file.search.sampler, file.search.num_trials, file.search.batch_size) == ("tpe", 24, 4)
    assert (file.finalists.num_seeds, file.finalists.noise_replicates) == (3, 6)
    assert (file.finalists.delta_fraction, file.finalists.top_k) == (0.001, 3)
    assert file.incumbent is None
    assert (file.run.device, file.run.threads, file.run.precision) == ("cpu", 1, None)
    assert file.budget.max_wall_hours is None
    assert [validation.name for validation in file.data.validation] == ["heldout"]
    assert (file.data.tokenizer, file.data.holdout_fraction) == (None, 0.05)


def test_what_is_written_is_kept(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        MINIMAL
        + """
[horizon]
num_steps = 500
global_batch_sequences = 2
seq_len = 128
[space]
warmup_ratio = [0.1]
[space.peak_lr]
low = 1e-3
high = 1e-1
[budget]
max_wall_hours = 2
""",
    )
    assert (file.horizon.num_steps, file.horizon.seq_len) == (500, 128)
    assert (file.space.peak_lr.low, file.space.peak_lr.high) == (1e-3, 1e-1)
    assert file.budget.max_wall_hours == 2.0


@pytest.mark.parametrize(
    ("extra", "path", "nearest"),
    [
        ("[horizn]\nnum_steps = 1", "horizn", "horizon"),
        ("[horizon]\nnum_step = 1", "horizon.num_step", "num_steps"),
        ("[proxy]\nwidth_facter = 4", "proxy.width_facter", "width_factor"),
        ("[proxy.cuts]\nn_layer = 4", "proxy.cuts.n_layer", "n_layers"),
        ("[parametrisation]\nancor = 'proxy'", "parametrisation.ancor", "anchor"),
        ("[evaluation]\nnum_point = 4", "evaluation.num_point", "num_points"),
        ("[space]\nwarmup = [0.1]", "space.warmup", "warmup_ratio"),
        ("[space.peak_lr]\ncenter = 1e-3", "space.peak_lr.center", "centre"),
        ("[space.tau]\nfactor = [1.0]", "space.tau.factor", "factors"),
        ("[space.weight_decay]\nvalue = [1.0]", "space.weight_decay.value", "values"),
        ("[search]\nnum_trial = 9", "search.num_trial", "num_trials"),
        ("[finalists]\nnum_seed = 9", "finalists.num_seed", "num_seeds"),
        ("[incumbent]\npeak_lrs = 1e-3", "incumbent.peak_lrs", "peak_lr"),
        ("[run]\nworker = 2", "run.worker", "workers"),
        ("[budget]\nmax_hours = 2", "budget.max_hours", "max_wall_hours"),
        (
            "[[data.validation]]\nname = 'a'\nnum_sequence = 3",
            "data.validation.0.num_sequence",
            "num_sequences",
        ),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest(
    tmp_path: Path, extra: str, path: str, nearest: str
) -> None:
    error = refused(tmp_path, MINIMAL + extra)
    assert error.path == path
    assert f"'{nearest}'" in error.fix


@pytest.mark.parametrize("table", ["target", "data"])
def test_a_misspelt_key_of_a_required_table_is_named(tmp_path: Path, table: str) -> None:
    error = refused(tmp_path, MINIMAL.replace(f"[{table}]", f"[{table}]\nseq_lem = 1"))
    assert error.path == f"{table}.seq_lem"


def test_a_misspelt_key_of_a_source_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path, MINIMAL.replace('"sympy"', '"sympy", wieght = 2.0'))
    assert error.path == "data.sources.0.wieght"
    assert "'weight'" in error.fix


@pytest.mark.parametrize("table", ["target", "data"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    text = MINIMAL.split("[data]")[0] if table == "data" else "[data]" + MINIMAL.split("[data]")[1]
    assert refused(tmp_path, text).path == table


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        ("[search]\nnum_trials = 24.0", "search.num_trials"),
        ("[search]\nnum_trials = '24'", "search.num_trials"),
        ("[search]\nnum_trials = true", "search.num_trials"),
        ("[search]\nnum_trials = 1", "search.num_trials"),
        ("[search]\nsampler = 'annealing'", "search.sampler"),
        ("[search]\nbatch_size = 0", "search.batch_size"),
        ("[search]\nseed = -1", "search.seed"),
        ("[proxy]\nwidth_factor = 0", "proxy.width_factor"),
        ("[proxy]\nranks = 'keep'", "proxy.ranks"),
        ("[horizon]\nnum_steps = 0", "horizon.num_steps"),
        ("[horizon]\nnum_steps = 9\ntokens_per_param = 20.0", "horizon.tokens_per_param"),
        ("[horizon]\ntokens_per_param = -1.0", "horizon.tokens_per_param"),
        ("[horizon]\nglobal_batch_sequences = 0", "horizon.global_batch_sequences"),
        ("[evaluation]\nnum_points = 0", "evaluation.num_points"),
        ("[evaluation]\nfinal_points = 0", "evaluation.final_points"),
        ("[evaluation]\nfinal_spacing_fraction = 0.4", "evaluation.final_spacing_fraction"),
        ("[space]\nwarmup_ratio = []", "space.warmup_ratio"),
        ("[space]\nwarmup_ratio = [1.5]", "space.warmup_ratio"),
        ("[space]\nschedule = []", "space.schedule"),
        ("[space]\nschedule = 'constant'", "space.schedule"),
        ("[space.peak_lr]\nlow = 1e-3", "space.peak_lr.high"),
        ("[space.peak_lr]\nhigh = 1e-3", "space.peak_lr.low"),
        ("[space.peak_lr]\nlow = 1e-2\nhigh = 1e-3", "space.peak_lr.low"),
        ("[space.peak_lr]\nlow = 1e-3\nhigh = 1e-2\ncentre = 3e-3", "space.peak_lr.centre"),
        ("[space.peak_lr]\noctaves = 0.0", "space.peak_lr.octaves"),
        ("[space.peak_lr]\ncentre = nan", "space.peak_lr.centre"),
        ("[space.tau]\nfactors = []", "space.tau.factors"),
        ("[space.tau]\nvalues = [0.0]", "space.tau.values"),
        ("[space.tau]\nvalues = [0.1]\nlow = 0.1\nhigh = 1.0", "space.tau.values"),
        ("[space.weight_decay]", "space.weight_decay"),
        ("[finalists]\nmax_configs = 2", "finalists.max_configs"),
        ("[finalists]\nnoise_replicates = 1", "finalists.noise_replicates"),
        ("[finalists]\ndelta_fraction = 0.0", "finalists.delta_fraction"),
        ("[run]\nworkers = 0", "run.workers"),
        ("[run]\nprecision = 'fp8'", "run.precision"),
        ("[run]\ncheckpoint_interval_steps = -1", "run.checkpoint_interval_steps"),
        ("[budget]\nmax_wall_hours = 0", "budget.max_wall_hours"),
        ("[incumbent]\npeak_lr = 1e-3\nwarmup_ratio = 0.1\nschedule = 'x'", "incumbent.tau"),
        (
            "[incumbent]\npeak_lr = 1e-3\nwarmup_ratio = 2.0\nschedule = 'x'\ntau = 0.1",
            "incumbent.warmup_ratio",
        ),
        ("[incumbent]\npeak_lr = 1e-3\ntau = 0.1\nwarmup_ratio = 0.1", "incumbent.schedule"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_path(tmp_path: Path, extra: str, path: str) -> None:
    assert refused(tmp_path, MINIMAL + extra).path == path


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("tokens = 0", "target.tokens"),
        ("tokens = 14.8e12", "target.tokens"),
        ("peak_lr = 0.0", "target.peak_lr"),
        ("init_std = -1.0", "target.init_std"),
        ("warmup_steps = -1", "target.warmup_steps"),
        ("seq_len = 0", "target.seq_len"),
    ],
)
def test_a_target_no_run_can_have_is_refused(tmp_path: Path, line: str, path: str) -> None:
    assert refused(tmp_path, MINIMAL.replace("[target]", f"[target]\n{line}")).path == path


def test_a_source_without_its_path_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, MINIMAL.replace('"sympy"', '"text"')).path == "data.sources.path"


@pytest.mark.parametrize("content", [b"[target", b"\xff\xfe", b"a = 1\na = 2"])
def test_what_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "SWEEP.toml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_sweep(path)
    assert caught.value.path == str(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        load_sweep(tmp_path / "SWEEP.toml")
