# SPDX-License-Identifier: Apache-2.0
"""Predict and score images from .npy and .npz files with a network of one's own."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from fpovi import BNNClassifier, load
from support.commands import good, refusal
from support.own_networks import FlaxConvNet

DIGITS, LABELS = load_digits(return_X_y=True)
IMAGES = DIGITS.reshape(-1, 8, 8, 1)
NETWORK = ["--network", "support.own_networks:flax_conv_net"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import jax

    folder = tmp_path_factory.mktemp("digits")
    with jax.numpy_dtype_promotion("standard"):
        model = BNNClassifier(network=FlaxConvNet(), n_particles=2, max_epochs=5, random_state=0)
        model.fit(IMAGES[:60], LABELS[:60]).save(folder / "model")
    np.save(folder / "new.npy", IMAGES[60:80])
    np.savez(folder / "new.npz", X=IMAGES[60:80], y=LABELS[60:80], weight=np.arange(20))
    return folder


def test_a_table_of_predictions(folder):
    good("predict", folder / "model", folder / "new.npy", *NETWORK, "--out", folder / "predictions.csv")
    found = pd.read_csv(folder / "predictions.csv")
    expected = load(folder / "model", network=FlaxConvNet()).predict_proba(IMAGES[60:80])
    assert list(found) == ["y_predicted", *(f"p_{i}" for i in range(10)), "entropy", "mutual_information"]
    # float32 as text and back
    np.testing.assert_allclose(found[[f"p_{i}" for i in range(10)]], expected, rtol=1e-5)


def test_what_stands_beside_the_images_is_kept(folder):
    good("predict", folder / "model", folder / "new.npz", *NETWORK, "--out", folder / "beside.csv")
    found = pd.read_csv(folder / "beside.csv")
    np.testing.assert_array_equal(found["y"], LABELS[60:80])
    np.testing.assert_array_equal(found["weight"], np.arange(20))
    rows = json.loads(good("predict", folder / "model", folder / "new.npz", *NETWORK, "--json").stdout)
    assert [row["y_predicted"] for row in rows] == found["y_predicted"].tolist()


def test_scores_are_those_of_the_estimator(folder):
    model = load(folder / "model", network=FlaxConvNet())
    weight = np.arange(20)
    found = json.loads(
        good("evaluate", folder / "model", folder / "new.npz", *NETWORK, "--weight", "weight", "--json").stdout
    )
    assert found["accuracy"] == pytest.approx(model.score(IMAGES[60:80], LABELS[60:80], weight))
    assert found["rows"] == 20


def test_show_needs_no_network(folder):
    shown = good("show", folder / "model").stdout
    assert "arrays of shape 8 × 8 × 1" in shown
    assert "2 of your own" in shown


def files(folder):
    """Files that cannot be predicted, and what is said of them."""
    np.save(folder / "flat.npy", DIGITS[:3])
    np.save(folder / "one-axis.npy", np.zeros(3))
    np.save(folder / "objects.npy", np.array([{}, 1], object))
    np.savez(folder / "others.npz", images=IMAGES[:3])
    np.savez(folder / "short.npz", X=IMAGES[:3], y=LABELS[:2])
    (folder / "broken.npz").write_bytes(b"PK not a zip file")
    pd.DataFrame(DIGITS[:3]).to_csv(folder / "table.csv")
    np.save(folder / "bright.npy", IMAGES[:3] * 255)
    return {
        "flat.npy": "rows of shape (64,), but (8, 8, 1) was seen in fit",
        "one-axis.npy": "X has shape (3,), but at least one row",
        "objects.npy": "is no file of arrays of numbers",
        "others.npz": "has no array X, but images",
        "short.npz": "y has shape (2,), but X has 3 rows",
        "broken.npz": "is no file of arrays of numbers",
        "table.csv": "is a table, but the model takes arrays of shape (8, 8, 1)",
        "bright.npy": "pixels of 0…255",
        "absent.npy": "there is no such file",
    }


def test_files_that_cannot_be_predicted(folder):
    for name, said in files(folder).items():
        line = refusal("predict", folder / "model", folder / name, *NETWORK, "--out", folder / "no.csv")
        assert said in line, name
        assert str(folder / name) in line
    assert not (folder / "no.csv").exists()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ([], "one of your own, which no file holds: give --network module:name"),
        (["--network", "nets"], "must be module:name"),
        (["--network", "no_such_module:net"], "cannot be imported: ModuleNotFoundError"),
        (["--network", "support.own_networks:nothing"], "support.own_networks has no nothing"),
        (["--network", "support.own_networks:FlaxConvNet"], "is the class FlaxConvNet, but an object of it is needed"),
        (["--network", "support.own_networks:perceptron"], "does not fit together with this network"),
    ],
)
def test_networks_that_are_not_the_models(folder, place, said):
    assert said in refusal("predict", folder / "model", folder / "new.npy", *place)


def test_a_module_that_fails_with_an_attribute_is_not_one_without_the_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "broken_nets.py").write_text("import math\nnetwork = math.no_such_thing\n")
    said = refusal("predict", folder / "model", folder / "new.npy", "--network", "broken_nets:network")
    assert "cannot be imported: AttributeError: module 'math' has no attribute 'no_such_thing'" in said


def test_targets_are_needed_to_evaluate(folder):
    assert "give a .npz file with the arrays X and y" in refusal(
        "evaluate", folder / "model", folder / "new.npy", *NETWORK
    )
