# SPDX-License-Identifier: Apache-2.0
"""From a table to a model, predictions and scores, as a practitioner meets it."""

import inspect
import json

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from fpovi.calibration import evaluate
from fpovi.cli.fit import fit
from fpovi.estimators import BNNClassifier, BNNRegressor, load
from fpovi.tabular.files import read_table
from support.commands import call, good, refusal

QUICK = ["--prior", "nngp", "--epochs", "20", "--particles", "4", "--hidden", "8"]


def houses(rows=40):
    rng = np.random.default_rng(0)
    size, town = rng.uniform(40, 200, rows), rng.choice(["north", "south"], rows)
    price = 2.5 * size + 30 * (town == "south") + rng.normal(0, 5, rows)
    return pd.DataFrame({"id": range(rows), "size": size, "town": town, "price": price, "trust": 1.0 + (size > 100)})


def write(folder, name, frame):
    frame.to_csv(folder / name, index=False)
    return folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("houses")
    write(folder, "houses.csv", houses())
    write(folder, "iris.csv", load_iris(as_frame=True).frame.replace({"target": dict(enumerate("abc"))}))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    """A regression model, and what fit said of it."""
    result = good("fit", folder / "houses.csv", "--target", "price", "--model", folder / "house.fpovi", "--drop", "id",
                  "--weight", "trust", *QUICK)  # fmt: skip
    return folder / "house.fpovi", result


@pytest.fixture(scope="module")
def classifier(folder):
    path = folder / "iris.fpovi"
    good("fit", folder / "iris.csv", "--target", "target", "--model", path, "--json", *QUICK)
    return path


def test_fit_says_what_it_did_and_leaves_only_the_model(model, folder):
    path, result = model
    for words in (
        "regression of price",
        "40 rows, 2 columns (1 category, 1 number)",
        "4 of 2-8-1 units, 20 steps",
        path,
    ):
        assert str(words) in result.stdout
    assert result.stderr == ""  # no bar where there is no terminal
    assert not list(folder.glob("*.checkpoint"))


# an object of Python's, what predict is asked, and the terminal's affair
NOT_FLAGS = {"network", "scaling", "unknown", "verbose"}


def test_flags_reach_the_estimator_and_default_to_its_defaults(model, folder):
    fitted = load(model[0])
    assert fitted.n_particles == 4
    assert fitted.hidden_layer_sizes == (8,)
    assert fitted.target_names_ == ("price",)
    assert fitted.checkpoint is None
    ours = {name: parameter.default for name, parameter in inspect.signature(fit).parameters.items()}
    called = {
        "n_particles": "particles",
        "max_epochs": "epochs",
        "hidden_layer_sizes": "hidden",
        "random_state": "seed",
    }
    flags = {name: called.get(name, name) for name in BNNRegressor().get_params()}
    # a network cannot be said in words, tables have no scaling to choose, and unknown categories are for predict
    assert {name for name, flag in flags.items() if flag not in ours} == NOT_FLAGS
    same = flags.keys() - NOT_FLAGS - {"hidden_layer_sizes", "likelihood", "random_state"}
    for estimator in (BNNRegressor, BNNClassifier):
        theirs = estimator().get_params()
        assert {name: ours[flags[name]] for name in same} == {name: theirs[name] for name in same}
        assert (int(ours["hidden"]),) == theirs["hidden_layer_sizes"]


def test_the_weight_column_and_the_seed_are_those_of_the_estimator(model, folder):
    table = houses()
    twin = BNNRegressor((8,), n_particles=4, prior="nngp", max_epochs=20, random_state=0)
    with jax.numpy_dtype_promotion("standard"):
        twin.fit(table[["size", "town"]], table["price"], table["trust"])
    np.testing.assert_array_equal(
        load(model[0]).predict(table[["size", "town"]]), twin.predict(table[["size", "town"]])
    )


def test_predictions_stand_beside_the_table_whatever_the_order_of_its_columns(model, folder):
    mixed = write(folder, "mixed.csv", houses()[["price", "town", "id", "size"]])
    good("predict", model[0], mixed, "--out", folder / "predictions.csv", "--level", "0.8")
    found = pd.read_csv(folder / "predictions.csv")
    added = ["price_mean", "price_std", "price_epistemic_std", "price_lower", "price_upper"]
    assert list(found) == ["price", "town", "id", "size", *added]
    expected = load(model[0]).predict_dist(houses()[["size", "town"]])
    low, high = expected.interval(0.8)
    answers = [expected.mean, expected.std, expected.epistemic_std, low, high]
    for name, values in zip(added, answers, strict=True):
        np.testing.assert_allclose(found[name], np.asarray(values)[:, 0], rtol=1e-6)  # float32 as text and back


def test_predictions_of_classes(classifier, folder):
    result = good("predict", classifier, folder / "iris.csv", "--json")
    rows = pd.DataFrame(json.loads(result.stdout))
    assert list(rows) == ["target_predicted", "p_a", "p_b", "p_c", "entropy", "mutual_information"]
    np.testing.assert_allclose(rows[["p_a", "p_b", "p_c"]].sum(axis=1), 1, atol=1e-6)  # float32
    assert (rows[["p_a", "p_b", "p_c"]].idxmax(axis=1) == "p_" + rows["target_predicted"]).all()


def test_without_out_the_first_rows_are_shown_and_with_a_dash_all_are_printed(model, folder):
    assert "the first 10 of 40 rows" in good("predict", model[0], folder / "houses.csv").stdout
    printed = good("predict", model[0], folder / "houses.csv", "--out", "-").stdout
    assert len(printed.splitlines()) == 41
    assert printed.startswith("id,size,town,price,trust,price_mean,")


def test_parquet_goes_in_and_out(model, folder):
    houses().to_parquet(folder / "houses.parquet")
    good("predict", model[0], folder / "houses.parquet", "--out", folder / "out.parquet")
    assert "price_mean" in read_table(folder / "out.parquet")


def test_evaluate_prints_the_scores_of_calibration(model, folder):
    scores = json.loads(good("evaluate", model[0], folder / "houses.csv", "--json").stdout)
    expected = evaluate(load(model[0]).predict_dist(houses()[["size", "town"]]), houses()["price"])
    assert scores == {"rows": 40, **expected, "plots": []}
    shown = good("evaluate", model[0], folder / "houses.csv", "--weight", "trust").stdout
    for word in ("NLL", "RMSE", "CRPS", "coverage", "sharpness"):
        assert word in shown


def test_evaluate_draws_and_does_not_draw_over(classifier, model, folder):
    for path, data, names in (
        (classifier, "iris.csv", ["reliability"]),
        (model[0], "houses.csv", ["coverage", "intervals", "pit"]),
    ):
        plots = folder / f"plots-{data}"
        scores = json.loads(good("evaluate", path, folder / data, "--plots", plots, "--json").stdout)
        assert sorted(plots.glob("*.png")) == [plots / f"{name}.png" for name in names]
        assert all(file.stat().st_size > 5000 for file in plots.glob("*.png"))
        assert {"accuracy", "brier", "ece"} <= scores.keys() or {"crps", "rmse"} <= scores.keys()
        assert "exists already" in refusal("evaluate", path, folder / data, "--plots", plots)


def test_show_says_what_the_file_knows(model, classifier):
    told = json.loads(good("show", model[0], "--json").stdout)
    assert told["task"] == "regression"
    assert told["target"] == ["price"]
    assert told["columns"] == {"size": "number", "town": "category"}
    assert told["noise"][0] > 0
    assert told["bytes"] == model[0].stat().st_size
    assert {"fpovi", "jax", "numpy"} == told["versions"].keys()
    assert "classes    a, b, c" in good("show", classifier).stdout


def test_several_targets(folder):
    path = folder / "two.fpovi"
    good("fit", folder / "houses.csv", "--target", "price", "--target", "size", "--model", path, *QUICK, "--quiet")
    found = json.loads(good("predict", path, folder / "houses.csv", "--json").stdout)[0]
    assert {"price_mean", "size_mean", "price_upper", "size_upper"} <= found.keys()


def changed(**columns):
    table = houses().astype(object)
    for name, (row, value) in columns.items():
        table.loc[row, name] = value
    return table


BAD_TABLES = {
    "column 'price' has 1 missing values, the first at row 3": changed(price=(3, np.nan)),
    "column 'price' has inf at row 3, but finite numbers": changed(price=(3, np.inf)),
    "column 'price' has 'abc' at row 3 among numbers": changed(price=(3, "abc")),
    "column 'price' is 7 in every row: there is nothing to learn": houses().assign(price=7),
    "column 'price' is yes in every row: there is nothing to learn": houses().assign(price="yes"),
    "the table has one row, but at least 2 are needed": houses(1),
    "there is no column 'price'; did you mean 'prize'?": houses().rename(columns={"price": "prize"}),
    "column 'price' has 40 different values in 40 rows, too many for classes": houses().assign(price=[f"h{i}" for i in range(40)]),  # noqa: E501
    "values of type datetime64[us] are neither numbers nor classes": houses().assign(price="2024-05-17").assign(price=pd.date_range("2024-05-17", periods=40).astype(str)),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("said", BAD_TABLES)
def test_a_table_that_cannot_be_learned_from(said, tmp_path):
    data = write(tmp_path, "bad.csv", BAD_TABLES[said])
    assert said in refusal("fit", data, "--target", "price", "--model", tmp_path / "m.fpovi")
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (bytes(range(256)), "is not text"), (b"a,b\n", "has no rows")]
)
def test_a_file_that_is_no_table(content, said, tmp_path, model):
    (tmp_path / "bad.csv").write_bytes(content)
    assert said in refusal("fit", tmp_path / "bad.csv", "--target", "a", "--model", tmp_path / "m.fpovi")
    assert said in refusal("predict", model[0], tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--task", "classification"], "has fractions such as"),
        (["--task", "guess"], "task='guess' is not known; choose one of auto, classification, regression"),
        (["--drop", "idd"], "drop: there is no column 'idd'; did you mean 'id'?"),
        (["--drop", "price"], "drop: column 'price' is the target"),
        (["--weight", "town"], "weight: column 'town' has '"),
        (["--weight", "id", "--drop", "weigth"], "drop: there is no column 'weigth'"),
        (["--hidden", "50,x"], "--hidden 50,x: must be positive whole numbers"),
        (["--learning-rate", "-1"], "--learning-rate -1: must be a positive number, or auto"),
        (["--epochs", "0.5"], "--epochs 0.5: must be a positive whole number, or auto"),
        (["--particles", "0"], "--particles 0: must be at least 1"),
        (["--devices", "0"], "--devices 0: must be a positive whole number, or all"),
        (
            ["--devices", "64"],
            "devices=64, but JAX sees 1 (cpu); of a CPU it makes as many with JAX_NUM_CPU_DEVICES=64",
        ),
        (["--validation-fraction", "1"], "--validation-fraction 1.0: must lie strictly between 0 and 1"),
        (["--flow", "sgvd"], "flow='sgvd' is not known; choose one of"),
    ],
)
def test_options_that_make_no_sense(arguments, said, folder, tmp_path):
    common = ["fit", folder / "houses.csv", "--target", "price", "--model", tmp_path / "m.fpovi"]
    assert said in refusal(*common, *arguments)
    assert not list(tmp_path.iterdir())


def test_a_word_among_numbers_of_an_input_is_noted(tmp_path):
    data = write(tmp_path, "houses.csv", changed(size=(3, "big")))
    result = call("fit", data, "--target", "price", "--model", tmp_path / "m.fpovi", "--flow", "none")
    assert result.stderr.splitlines()[0] == (
        "fpovi: note: column 'size' has 'big' at row 3 among numbers, and is taken for categories"
    )


def test_a_model_is_not_written_where_it_cannot_be_or_must_not(folder, tmp_path):
    """Said before the table is read, let alone learned from."""
    (tmp_path / "taken.fpovi").write_text("precious")
    common = ["fit", tmp_path / "absent.csv", "--target", "price", "--model"]
    assert "exists already: choose another name, or --force" in refusal(*common, tmp_path / "taken.fpovi")
    assert "there is no folder" in refusal(*common, tmp_path / "absent" / "m.fpovi")
    assert "is a folder" in refusal(*common, tmp_path)
    assert (tmp_path / "taken.fpovi").read_text() == "precious"
    good("fit", folder / "houses.csv", "--target", "price", "--model", tmp_path / "taken.fpovi", "--drop", "id",
         "--drop", "trust", "--force", *QUICK)  # fmt: skip
    load(tmp_path / "taken.fpovi")


def test_predictions_are_not_written_where_they_must_not(model, folder):
    before = (folder / "houses.csv").read_bytes()
    assert "exists already" in refusal("predict", model[0], folder / "houses.csv", "--out", folder / "houses.csv")
    assert (folder / "houses.csv").read_bytes() == before
    assert "unknown extension" in refusal("predict", model[0], folder / "houses.csv", "--out", folder / "p.xlsx")
    assert "there is no folder" in refusal("predict", model[0], folder / "houses.csv", "--out", folder / "no" / "p.csv")
    twice = write(folder, "twice.csv", houses().assign(price_mean=0))
    assert "has a column 'price_mean' already" in refusal("predict", model[0], twice)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (houses().drop(columns=["size", "town"]), "lacks 2 of the columns seen in fit: 'size', 'town'"),
        (changed(town=(2, "west")), "'west' in column 'town', row 2, where only 'north', 'south' were seen"),
        (changed(size=(2, "big")), "column 'size' has 'big' at row 2, where numbers were seen in fit"),
    ],
)
def test_rows_that_cannot_be_predicted(table, said, model, tmp_path):
    data = write(tmp_path, "new.csv", table)
    for command in ("predict", "evaluate"):
        assert f"new.csv: {said}" in refusal(command, model[0], data).replace("X has ", "").replace("X ", "")


def test_an_unseen_category_may_be_taken_for_a_missing_value(model, tmp_path):
    data = write(tmp_path, "new.csv", changed(town=(2, "west")))
    good("predict", model[0], data, "--unknown", "missing", "--out", tmp_path / "out.csv")
    assert "unknown='maybe' is not known" in refusal("predict", model[0], data, "--unknown", "maybe")


def test_targets_that_cannot_be_scored(model, classifier, folder, tmp_path):
    data = write(tmp_path, "new.csv", houses().drop(columns="price"))
    assert "target: there is no column 'price'" in refusal("evaluate", model[0], data)
    data = write(tmp_path, "new.csv", pd.read_csv(folder / "iris.csv").replace({"target": {"a": "rose"}}))
    assert "has the class rose at row 0, but fit saw only a, b, c" in refusal("evaluate", classifier, data)


def test_a_model_file_that_is_none(folder, tmp_path):
    (tmp_path / "m.fpovi").write_text("not a model at all, but long enough to look like one")
    for arguments in (["show"], ["predict", folder / "houses.csv"], ["evaluate", folder / "houses.csv"]):
        assert "is not an fpovi model" in refusal(arguments[0], tmp_path / "m.fpovi", *arguments[1:])
    assert "No such file" in refusal("show", tmp_path / "absent.fpovi")
