"""Attacks on networks, trained without privacy and with it; a JSON line each.

python benchmarks/attacks.py curve DATA [--data mnist cifar10] [--records 20] [--width 512] [--steps 6000]
                                        [--linearised] [--pictures F.png]
python benchmarks/attacks.py table DATA [--data mnist cifar10] [--width 512] [--steps 10000]
python benchmarks/attacks.py protected DATA [--data mnist] [--set DIR]

curve: images rebuilt from a network with two hidden layers. table: sets by KIP, RKIP and RKIP-finite. protected: the
same attack on networks with one hidden layer, trained without privacy, by DP-SGD at epsilon 1 on the same records and
on 2,000 records, and on a distilled set DIR. DATA holds mnist/, fashion_mnist/ and cifar10/ as their sources
publish them. Two classes: odd digits against even ones, animals against vehicles; pixels are in [0, 1].

Source: Loo et al., 2024 (Understanding reconstruction attacks with the neural tangent kernel), sections 4 to 6.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.attacks.attacked_networks import Descent, Smooth, stable_rate, start
from dpdistill.attacks.reconstruction import Reconstruction, curve
from dpdistill.attacks.repeated_reconstruction import peel
from dpdistill.attacks.rkip import Inducing, NotPrivate, rkip_finite
from dpdistill.folder.save import read_distilled
from dpdistill.methods.dp_sgd import DPSGD
from dpdistill.schema import Schema
from dpdistill.sources.load import load
from dpdistill.storage.records import Records

POSITIVE = {"mnist": (1, 3, 5, 7, 9), "fashion_mnist": (0, 2, 3, 4, 6), "cifar10": (2, 3, 4, 5, 6, 7)}
NET = Smooth()


def two_classes(folder: Path, part: str, n: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images in [0, 1] and targets of +-1, half of each; all records if n is left out."""
    records = load(folder, part)
    labels = np.isin(records.y, POSITIVE[folder.name])
    rows = np.arange(len(records))
    if n is not None:
        rng = np.random.default_rng(seed)
        sides = (np.flatnonzero(labels), np.flatnonzero(~labels))
        rows = np.concatenate([rng.choice(side, n // 2, replace=False) for side in sides])
    X, _ = records.take(rows)
    return (X + 1.0) / 2.0, np.where(labels[rows], 1.0, -1.0)[:, None].astype(np.float32)


def sizes(X: np.ndarray, width: int) -> tuple[int, ...]:
    return (X[0].size, width, width, 1)


def descent(params: Any, X: Any) -> Descent:
    """Training settings: to the end for few records, 600 steps for hundreds of records."""
    return Descent(steps=20_000 if len(X) < 100 else 600, learning_rate=stable_rate(NET, params, X))


def nothing(X: np.ndarray) -> float:
    """Mean squared distance of images to their mean."""
    return float(np.square(X - X.mean(0)).sum((1, 2, 3)).mean())


def rebuild(args: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Rebuilds images for several numbers of records: a reconstruction curve."""
    X, T = two_classes(folder, "train", args.records, seed)
    params, began = start(seed, sizes(X, args.width)), time.perf_counter()
    attack = Reconstruction(2 * len(X), args.steps, at="initial" if args.linearised else "both")
    how = {"layers": 1, "linearised": args.linearised, "seed": seed}
    (layer,) = peel(X, T, NET, params, descent(params, X), attack, **how)
    if args.pictures is not None:
        rows = [np.concatenate(list(part), 1) for part in (X[layer.rows], layer.found[layer.pairs.found])]
        pixels = np.rint(np.clip(np.concatenate(rows), 0, 1) * 255).astype(np.uint8)
        Image.fromarray(pixels.squeeze()).resize((pixels.shape[1] * 2, pixels.shape[0] * 2)).save(args.pictures)
    return {
        "error": layer.pairs.error,
        "mean image": nothing(X),
        "rebuilt": int((layer.pairs.distances < nothing(X) / 4).sum()),
        "distances": np.round(layer.pairs.distances, 2).tolist(),
        "kernel distance": layer.turned,
        "rank correlation of duals and distances": layer.correlation,
        "seconds": time.perf_counter() - began,
    }


def distil(args: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Accuracy of networks on 20 images from 500 records: in full, to first order, infinite width."""
    (X, T), (X_test, T_test) = two_classes(folder, "train", 500, seed), two_classes(folder, "test", None, seed)
    params, other = (start(seed + i, sizes(X, args.width)) for i in (0, 1000))
    to = np.repeat([[1.0], [-1.0]], 10, 0).astype(np.float32)
    kip, rkip = (Inducing(loss, steps=args.steps) for loss in ("kip", "rkip"))
    chosen = np.random.default_rng(seed).choice(250, 10, replace=False)
    rows = np.concatenate([chosen, chosen + 250])
    after = descent(params, X).train(NET, params, X, T)
    attack = Reconstruction(20, args.attack, at=args.at, bounds=None)
    sets = {
        "all 500": NotPrivate(X, T),
        "random": NotPrivate(X[rows], T[rows]),
        "KIP": kip.distill(X, T, to, seed=seed),
        "RKIP": rkip.distill(X, T, to, seed=seed),
        "RKIP-finite": rkip_finite(NET, params, after, X.shape[1:], attack, seed=seed),
    }
    found, seen = {}, jnp.asarray(X_test)
    for name, made in sets.items():
        how = descent(other, made.X)
        nets = [train(NET, other, made.X, made.targets) for train in (how.train, how.train_linearised)]
        moved = jax.tree.map(jnp.subtract, nets[1], other)
        at_start, change = jax.jvp(lambda p: NET(p, seen), (other,), (moved,))
        scores = (NET(nets[0], seen), at_start + change, rkip.scores(made, X_test))
        found[name] = [round(100 * float(np.mean((np.asarray(s) > 0) == (T_test > 0))), 1) for s in scores]
        print(name, found[name], flush=True)
    return found


def protected(args: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Attacks networks with one hidden layer: trained without privacy, with privacy, and on a set."""
    (X, T), (members, M), (others, _) = (
        two_classes(folder, part, n, seed) for part, n in (("train", args.records), ("train", 2_000), ("test", 2_000))
    )
    # Within these bounds a record is not clamped.
    labels, schema = np.eye(2, dtype=np.float32), Schema(X.shape[1:], (-1.0, 1.0), ("no", "yes"))
    method = DPSGD(sees="pixels", hidden=args.width, rounds=100, sampling_prob=1.0)
    params = method.init(jax.random.key(seed), schema)["params"]
    attack = Reconstruction(2 * len(X), args.steps)

    def rebuilt(after: Any, real: np.ndarray) -> dict[str, Any]:
        found = attack.run(NET, params, after, X.shape[1:], seed=seed)
        pairs = curve(real, found.X)
        near = [float(np.median(_nearest(found.X, side))) for side in (members, others)]
        return {
            "error": pairs.error,
            "rebuilt": int((pairs.distances < nothing(real) / 4).sum()),
            "mean image": nothing(real),
            "median distance of a reconstruction to the nearest of 2,000 members, of 2,000 others": near,
            "unexplained": found.loss,
        }

    def private(images: np.ndarray, targets: np.ndarray) -> Any:
        """Parameters after DP-SGD at epsilon 1."""
        state = method.init(jax.random.key(seed), schema)

        def watch(query: Any, asked: Any, release: Any) -> None:
            nonlocal state
            state = method.tell(state, release)

        records = Records(images, (targets[:, 0] > 0).astype(np.int64), schema)
        run.distill(records, method, Budget(1.0), seed=seed, watch=watch)
        seen = np.asarray(NET(state["params"], jnp.asarray(others))).argmax(1)
        print("accuracy after DP-SGD", float(np.mean(seen == (two_classes(folder, "test", 2_000, seed)[1][:, 0] > 0))))
        return state["params"]

    how = Descent(learning_rate=stable_rate(NET, params, X), loss="cross-entropy", enough=1e-3)
    found = {
        "no privacy": rebuilt(how.train(NET, params, X, labels[(T[:, 0] > 0).astype(int)]), X),
        "DP-SGD on the same records": rebuilt(private(X, T), X),
        "DP-SGD on 2,000 records": rebuilt(private(members, M), X),
    }
    if args.set is not None:
        made = read_distilled(args.set)
        few = np.random.default_rng(seed).choice(len(made.X), args.records, replace=False)
        S, side = (made.X[few] + 1.0) / 2.0, np.isin(made.y[few], POSITIVE[folder.name])
        how = replace(how, learning_rate=stable_rate(NET, params, S))
        after = how.train(NET, params, S, labels[side.astype(int)])
        found["a distilled set: its own images"] = rebuilt(after, S)
    return found


def _nearest(found: np.ndarray, real: np.ndarray) -> np.ndarray:
    A, B = (X.reshape(len(X), -1) for X in (found, real))
    return (np.square(A).sum(1)[:, None] - 2 * A @ B.T + np.square(B).sum(1)).min(1)


WHAT = {"curve": rebuild, "table": distil, "protected": protected}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=["mnist", "cifar10"], choices=POSITIVE)
    parser.add_argument("--records", type=int, nargs="+", default=[20])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6_000)
    parser.add_argument("--attack", type=int, default=6_000, help="steps of RKIP-finite's attack")
    parser.add_argument(
        "--at", default="initial", help="network whose gradients RKIP-finite's attack uses: initial, final, both"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--linearised", action="store_true")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--set", type=Path)
    args = parser.parse_args()
    for data in args.data:
        for seed in args.seeds:
            for n in args.records:
                now = argparse.Namespace(**{**vars(args), "records": n})
                found = WHAT[args.what](now, args.folder / data, seed)
                asked = {k: v for k, v in vars(now).items() if k in ("what", "records", "width", "steps", "linearised")}
                print(json.dumps({**asked, "data": data, "seed": seed, **found}), flush=True)


if __name__ == "__main__":
    main()
